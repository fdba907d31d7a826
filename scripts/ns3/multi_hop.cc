// OLAF's multi-hop scenario (Figure 9) in ns-3: a second implementation of what pktgen simulates in
// virtual time, sharing no code with it. `compare` beside this file builds and runs both.
//
// 10 clusters of 10 workers, one host each. Clusters 0-4 (group S1) reach SW1, 5-9 (S2) reach SW2, both
// reach SW3, and that the parameter server. Frames have 1000 bytes on every link, PPP header included;
// the queue of a device does not hold the frame in transmission. Uplink only: nobody answers.

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <list>
#include <unordered_map>
#include <vector>

using namespace ns3;

namespace
{

constexpr uint32_t CLUSTERS = 10;
constexpr uint32_t PER_CLUSTER = 10;
constexpr uint32_t WORKERS = CLUSTERS * PER_CLUSTER;
constexpr uint32_t LEAVES = 2;
constexpr uint32_t FRAME_BYTES = 1000;
constexpr uint32_t PPP_BYTES = 2;
constexpr uint32_t IP_UDP_BYTES = 28;
constexpr uint16_t PORT = 9000;

// ---------------------------------------------------------------------------------------------------------
// The update, as bytes at the start of the payload

/// One update of one worker. An aggregate carries the bytes of its newest member.
class UpdateHeader : public Header
{
  public:
    uint16_t cluster{0};
    uint32_t worker{0};
    uint32_t seq{0};
    int64_t generation{0}; //!< ps

    static constexpr uint32_t BYTES = 18;

    static TypeId GetTypeId()
    {
        static TypeId tid =
            TypeId("UpdateHeader").SetParent<Header>().AddConstructor<UpdateHeader>();
        return tid;
    }

    TypeId GetInstanceTypeId() const override
    {
        return GetTypeId();
    }

    uint32_t GetSerializedSize() const override
    {
        return BYTES;
    }

    void Serialize(Buffer::Iterator at) const override
    {
        at.WriteHtonU16(cluster);
        at.WriteHtonU32(worker);
        at.WriteHtonU32(seq);
        at.WriteHtonU64(static_cast<uint64_t>(generation));
    }

    uint32_t Deserialize(Buffer::Iterator at) override
    {
        cluster = at.ReadNtohU16();
        worker = at.ReadNtohU32();
        seq = at.ReadNtohU32();
        generation = static_cast<int64_t>(at.ReadNtohU64());
        return BYTES;
    }

    void Print(std::ostream& os) const override
    {
        os << "cluster " << cluster << " worker " << worker << " seq " << seq;
    }

    /// Reads the update that starts `offset` bytes into a packet, whatever headers are before it.
    static UpdateHeader At(Ptr<const Packet> packet, uint32_t offset)
    {
        uint8_t bytes[PPP_BYTES + IP_UDP_BYTES + BYTES];
        packet->CopyData(bytes, offset + BYTES);
        const uint8_t* at = bytes + offset;
        auto take = [&at](int n) {
            uint64_t value = 0;
            while (n-- > 0)
            {
                value = value << 8 | *at++;
            }
            return value;
        };
        UpdateHeader header;
        header.cluster = static_cast<uint16_t>(take(2));
        header.worker = static_cast<uint32_t>(take(4));
        header.seq = static_cast<uint32_t>(take(4));
        header.generation = static_cast<int64_t>(take(8));
        return header;
    }
};

// ---------------------------------------------------------------------------------------------------------
// Age-of-Model and fates

/// The sawtooth of one flow: 0 at its first generation; a delivery that is newer than the freshest known
/// lowers it; it ends at the last delivery or generation, whichever is later.
class Flow
{
  public:
    void Generated(int64_t t)
    {
        if (m_start < 0)
        {
            m_start = m_since = m_fresh = t;
        }
        m_last = std::max(m_last, t);
    }

    void Delivered(int64_t t, int64_t generation)
    {
        m_last = std::max(m_last, t);
        if (generation > m_fresh)
        {
            Grow(t);
            m_fresh = generation;
        }
    }

    /// Time average in ms.
    double Mean()
    {
        Grow(m_last);
        return m_last > m_start ? m_area / (static_cast<double>(m_last - m_start) * 1e-9) : 0.0;
    }

  private:
    void Grow(int64_t t)
    {
        const double a = static_cast<double>(m_since - m_fresh) * 1e-9;
        const double b = static_cast<double>(t - m_fresh) * 1e-9;
        m_area += (b - a) * (a + b) / 2;
        m_since = t;
    }

    int64_t m_start{-1};
    int64_t m_since{0};
    int64_t m_fresh{0};
    int64_t m_last{0};
    double m_area{0}; //!< ms^2
};

/// A member of an aggregate.
struct Member
{
    uint32_t worker;
    int64_t generation;
};

/// Everything that is counted, and the members of aggregates by the uid of the packet that carries them.
/// The uid survives copies and headers; a packet that is not in the table carries one update, its own.
struct Books
{
    std::unordered_map<uint64_t, std::vector<Member>> members;
    std::vector<Flow> workers{WORKERS};
    std::vector<Flow> clusters{CLUSTERS};
    uint64_t sent[LEAVES]{};
    uint64_t dropped[LEAVES]{};
    uint64_t subsumed{0};
    uint64_t merges{0};
    uint64_t deliveredAlone{0};
    uint64_t deliveredMerged{0};
    uint64_t received{0};
    uint32_t offset{PPP_BYTES}; //!< of the update in a frame on a device
    std::ofstream trace;        //!< generations, as a CSV that pktgen reads; closed if nobody asked

    static uint32_t Group(uint16_t cluster)
    {
        return cluster * LEAVES / CLUSTERS;
    }

    void Generated(int64_t t, const UpdateHeader& update)
    {
        sent[Group(update.cluster)]++;
        workers[update.worker].Generated(t);
        clusters[update.cluster].Generated(t);
        if (trace.is_open())
        {
            trace << t << ',' << update.cluster << ',' << update.worker << ',' << update.seq << ",0\n";
        }
    }

    uint64_t Count(Ptr<const Packet> packet) const
    {
        auto found = members.find(packet->GetUid());
        return found == members.end() ? 1 : found->second.size();
    }

    void Dropped(Ptr<const Packet> frame)
    {
        dropped[Group(UpdateHeader::At(frame, offset).cluster)] += Count(frame);
        members.erase(frame->GetUid());
    }

    /// At the server; `packet` begins with the update.
    void Received(Ptr<const Packet> packet)
    {
        const int64_t now = Simulator::Now().GetPicoSeconds();
        const UpdateHeader update = UpdateHeader::At(packet, 0);
        received++;
        clusters[update.cluster].Delivered(now, update.generation);
        auto found = members.find(packet->GetUid());
        if (found == members.end())
        {
            deliveredAlone++;
            workers[update.worker].Delivered(now, update.generation);
            return;
        }
        deliveredMerged += found->second.size();
        for (const Member& member : found->second)
        {
            // Every worker that is represented is refreshed with the newest generation of the aggregate.
            workers[member.worker].Delivered(now, update.generation);
        }
        members.erase(found);
    }
};

Books g_books;

// ---------------------------------------------------------------------------------------------------------
// The Olaf queue: Algorithm 1 without the reward filter

/// At most one update per cluster waits. An arrival of a waiting cluster replaces the waiting update if both
/// are unmerged updates of one worker, and merges with it otherwise; the place in the queue is kept. Other
/// arrivals are appended if there is room, and dropped if not.
class OlafQueue : public Queue<Packet>
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid =
            TypeId("OlafQueue")
                .SetParent<Queue<Packet>>()
                .AddConstructor<OlafQueue>()
                .AddAttribute("MaxSize",
                              "Updates that may wait",
                              QueueSizeValue(QueueSize("8p")),
                              MakeQueueSizeAccessor(&QueueBase::SetMaxSize, &QueueBase::GetMaxSize),
                              MakeQueueSizeChecker());
        return tid;
    }

    bool Enqueue(Ptr<Packet> frame) override
    {
        const UpdateHeader update = UpdateHeader::At(frame, g_books.offset);
        Waiting& waiting = m_waiting[update.cluster];
        if (!waiting.present)
        {
            if (!DoEnqueue(GetContainer().end(), frame, waiting.at))
            {
                return false;
            }
            waiting.present = true;
            waiting.newest = update;
            return true;
        }
        const Ptr<Packet> old = *waiting.at;
        const bool single = g_books.Count(old) == 1 && g_books.Count(frame) == 1;
        const bool newer = update.generation >= waiting.newest.generation;
        if (single && update.worker == waiting.newest.worker)
        {
            g_books.subsumed++;
        }
        else
        {
            Merge(old, waiting.newest, frame, update, newer);
        }
        if (newer)
        {
            Replace(waiting, frame, update);
        }
        return true;
    }

    Ptr<Packet> Dequeue() override
    {
        Ptr<Packet> frame = DoDequeue(GetContainer().begin());
        Left(frame);
        return frame;
    }

    Ptr<Packet> Remove() override
    {
        Ptr<Packet> frame = DoRemove(GetContainer().begin());
        Left(frame);
        return frame;
    }

    Ptr<const Packet> Peek() const override
    {
        return DoPeek(GetContainer().begin());
    }

  private:
    struct Waiting
    {
        bool present{false};
        Iterator at;
        UpdateHeader newest;
    };

    void Left(Ptr<Packet> frame)
    {
        if (frame)
        {
            m_waiting[UpdateHeader::At(frame, g_books.offset).cluster].present = false;
        }
    }

    /// The members of both become members of the newer packet.
    static void Merge(Ptr<Packet> old,
                      const UpdateHeader& oldUpdate,
                      Ptr<Packet> frame,
                      const UpdateHeader& update,
                      bool newer)
    {
        g_books.merges++;
        std::vector<Member> all = Take(old, oldUpdate);
        for (const Member& member : Take(frame, update))
        {
            all.push_back(member);
        }
        g_books.members[(newer ? frame : old)->GetUid()] = std::move(all);
    }

    static std::vector<Member> Take(Ptr<Packet> packet, const UpdateHeader& update)
    {
        auto node = g_books.members.extract(packet->GetUid());
        return node ? std::move(node.mapped())
                    : std::vector<Member>{{update.worker, update.generation}};
    }

    /// `frame` takes the place of what waits.
    void Replace(Waiting& waiting, Ptr<Packet> frame, const UpdateHeader& update)
    {
        const ConstIterator after = std::next(waiting.at);
        DoDequeue(waiting.at);
        const bool fits = DoEnqueue(after, frame, waiting.at);
        NS_ABORT_MSG_UNLESS(fits, "a place that was just left is free");
        waiting.newest = update;
    }

    Waiting m_waiting[CLUSTERS];
};

NS_OBJECT_ENSURE_REGISTERED(OlafQueue);

// ---------------------------------------------------------------------------------------------------------
// Hosts and devices

/// A periodic worker: a random phase, then gaps off by up to the jitter's share of the period.
class Worker : public Application
{
  public:
    uint16_t cluster{0};
    uint32_t worker{0};
    uint32_t updates{0};
    int64_t period{0}; //!< ps
    double jitter{0};
    int64_t until{0}; //!< ps; 0 for no end
    uint32_t payload{0};
    Callback<void, Ptr<Packet>> send;

  private:
    void StartApplication() override
    {
        m_random = CreateObject<UniformRandomVariable>();
        // A stream of its own by number: the same draws whatever else the simulation contains.
        m_random->SetStream(worker);
        Schedule(m_random->GetValue(0.0, 1.0));
    }

    void StopApplication() override
    {
        m_next.Cancel();
    }

    /// The next update, `periods` from now.
    void Schedule(double periods)
    {
        const auto gap = static_cast<int64_t>(periods * static_cast<double>(period));
        if (m_seq < updates && (until == 0 || Simulator::Now().GetPicoSeconds() + gap <= until))
        {
            m_next = Simulator::Schedule(PicoSeconds(gap), &Worker::Generate, this);
        }
    }

    void Generate()
    {
        const int64_t now = Simulator::Now().GetPicoSeconds();
        UpdateHeader update;
        update.cluster = cluster;
        update.worker = worker;
        update.seq = m_seq++;
        update.generation = now;
        Ptr<Packet> packet = Create<Packet>(payload - UpdateHeader::BYTES);
        packet->AddHeader(update);
        g_books.Generated(now, update);
        send(packet);
        Schedule(1.0 + jitter * (2.0 * m_random->GetValue(0.0, 1.0) - 1.0));
    }

    Ptr<UniformRandomVariable> m_random;
    EventId m_next;
    uint32_t m_seq{0};
};

void
SendOnDevice(Ptr<NetDevice> device, Ptr<Packet> packet)
{
    device->Send(packet, device->GetBroadcast(), 0x0800);
}

void
SendOnSocket(Ptr<Socket> socket, Ptr<Packet> packet)
{
    socket->Send(packet);
}

/// What arrives at a device leaves by its uplink.
bool
Forward(Ptr<NetDevice> uplink, Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address&)
{
    SendOnDevice(uplink, packet->Copy());
    return true;
}

/// The same, after everything that was already planned for this instant: departures come before arrivals.
bool
ForwardAfterDepartures(Ptr<NetDevice> uplink,
                       Ptr<NetDevice>,
                       Ptr<const Packet> packet,
                       uint16_t,
                       const Address&)
{
    Simulator::ScheduleNow(&SendOnDevice, uplink, packet->Copy());
    return true;
}

bool
ReceiveOnDevice(Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t, const Address&)
{
    g_books.Received(packet);
    return true;
}

void
ReceiveOnSocket(Ptr<Socket> socket)
{
    while (Ptr<Packet> packet = socket->Recv())
    {
        g_books.Received(packet);
    }
}

void
CheckFrame(Ptr<const Packet> frame)
{
    NS_ABORT_MSG_UNLESS(frame->GetSize() == FRAME_BYTES, "a frame of " << frame->GetSize() << " B");
}

// ---------------------------------------------------------------------------------------------------------
// The network

/// What the command line says.
struct Settings
{
    std::string queue{"fifo"};
    std::string stack{"ip"};
    std::string ties{"ns3"};
    uint32_t run{1};
    uint32_t updates{1000};
    double period1{100};
    double period2{100};
    double jitter{0.1};
    double until{0};
    std::string trace;
    std::string leafRate{"800kbps"};
    std::string rootRate{"1Mbps"};
    uint32_t leafSlots{5};
    uint32_t rootSlots{8};
};

/// One uplink: the device that sends and the one that receives.
using Link = std::pair<Ptr<PointToPointNetDevice>, Ptr<PointToPointNetDevice>>;

class Network
{
  public:
    explicit Network(const Settings& settings)
        : m_settings(settings)
    {
        m_hosts.Create(WORKERS);
        m_leaves.Create(LEAVES);
        m_root = CreateObject<Node>();
        m_server = CreateObject<Node>();
        for (uint32_t worker = 0; worker < WORKERS; worker++)
        {
            const uint32_t leaf = Books::Group(worker / PER_CLUSTER);
            m_up.push_back(Connect(m_hosts.Get(worker), m_leaves.Get(leaf), "1Gbps", 0));
        }
        for (uint32_t leaf = 0; leaf < LEAVES; leaf++)
        {
            m_leafUp.push_back(
                Connect(m_leaves.Get(leaf), m_root, settings.leafRate, settings.leafSlots));
        }
        m_rootUp = Connect(m_root, m_server, settings.rootRate, settings.rootSlots);
        m_rootUp.second->TraceConnectWithoutContext("PhyRxEnd", MakeCallback(&CheckFrame));
        std::vector<Callback<void, Ptr<Packet>>> ways =
            settings.stack == "ip" ? InstallIp() : InstallDevices();
        for (uint32_t worker = 0; worker < WORKERS; worker++)
        {
            InstallWorker(worker, ways[worker]);
        }
    }

  private:
    /// A link with no delay; `slots` 0 leaves ns-3's default queue, which hosts never fill.
    Link Connect(Ptr<Node> from, Ptr<Node> to, const std::string& rate, uint32_t slots)
    {
        PointToPointHelper helper;
        helper.SetDeviceAttribute("DataRate", StringValue(rate));
        helper.SetChannelAttribute("Delay", StringValue("0ps"));
        // With flow control ns-3 puts a second queue (fq_codel) before the device's, or drops before the
        // device's queue is asked: an Olaf queue would not see what it can merge although it is full.
        helper.DisableFlowControl();
        NetDeviceContainer both = helper.Install(from, to);
        Link link{both.Get(0)->GetObject<PointToPointNetDevice>(),
                  both.Get(1)->GetObject<PointToPointNetDevice>()};
        if (slots > 0)
        {
            Ptr<Queue<Packet>> queue;
            if (m_settings.queue == "olaf")
            {
                queue = CreateObject<OlafQueue>();
            }
            else
            {
                queue = CreateObject<DropTailQueue<Packet>>();
            }
            queue->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, slots));
            queue->TraceConnectWithoutContext("Drop", MakeCallback(&Books::Dropped, &g_books));
            link.first->SetQueue(queue);
        }
        return link;
    }

    /// UDP over ns-3's IPv4, static routes towards the server: 970 B of payload, UDP 8, IPv4 20, PPP 2.
    std::vector<Callback<void, Ptr<Packet>>> InstallIp()
    {
        g_books.offset = PPP_BYTES + IP_UDP_BYTES;
        InternetStackHelper stack;
        stack.SetIpv6StackInstall(false);
        Ipv4StaticRoutingHelper routing;
        stack.SetRoutingHelper(routing);
        stack.InstallAll();
        Ipv4AddressHelper addresses;
        addresses.SetBase("10.0.0.0", "255.255.255.252");
        auto assign = [&](const Link& link) {
            NetDeviceContainer both(link.first);
            both.Add(link.second);
            Ipv4InterfaceContainer interfaces = addresses.Assign(both);
            addresses.NewNetwork();
            Ptr<Ipv4> ip = link.first->GetNode()->GetObject<Ipv4>();
            routing.GetStaticRouting(ip)->SetDefaultRoute(interfaces.GetAddress(1),
                                                          ip->GetInterfaceForDevice(link.first));
            return interfaces.GetAddress(1);
        };
        for (const Link& link : m_up)
        {
            assign(link);
        }
        for (const Link& link : m_leafUp)
        {
            assign(link);
        }
        const InetSocketAddress server(assign(m_rootUp), PORT);
        m_sink = Socket::CreateSocket(m_server, UdpSocketFactory::GetTypeId());
        m_sink->Bind(InetSocketAddress(Ipv4Address::GetAny(), PORT));
        m_sink->SetRecvCallback(MakeCallback(&ReceiveOnSocket));
        std::vector<Callback<void, Ptr<Packet>>> ways;
        for (uint32_t worker = 0; worker < WORKERS; worker++)
        {
            Ptr<Socket> socket =
                Socket::CreateSocket(m_hosts.Get(worker), UdpSocketFactory::GetTypeId());
            socket->Bind();
            socket->Connect(server);
            ways.push_back(MakeBoundCallback(&SendOnSocket, socket));
        }
        return ways;
    }

    /// Frames from device to device without a protocol stack: 998 B of payload, PPP 2. The least that ns-3
    /// can do for this scenario.
    std::vector<Callback<void, Ptr<Packet>>> InstallDevices()
    {
        g_books.offset = PPP_BYTES;
        auto* forward = m_settings.ties == "departures" ? &ForwardAfterDepartures : &Forward;
        for (uint32_t worker = 0; worker < WORKERS; worker++)
        {
            Ptr<NetDevice> uplink = m_leafUp[Books::Group(worker / PER_CLUSTER)].first;
            m_up[worker].second->SetReceiveCallback(MakeBoundCallback(forward, uplink));
        }
        for (const Link& link : m_leafUp)
        {
            Ptr<NetDevice> uplink = m_rootUp.first;
            link.second->SetReceiveCallback(MakeBoundCallback(forward, uplink));
        }
        m_rootUp.second->SetReceiveCallback(MakeCallback(&ReceiveOnDevice));
        std::vector<Callback<void, Ptr<Packet>>> ways;
        for (const Link& link : m_up)
        {
            Ptr<NetDevice> device = link.first;
            ways.push_back(MakeBoundCallback(&SendOnDevice, device));
        }
        return ways;
    }

    void InstallWorker(uint32_t id, const Callback<void, Ptr<Packet>>& way)
    {
        Ptr<Worker> worker = CreateObject<Worker>();
        worker->worker = id;
        worker->cluster = static_cast<uint16_t>(id / PER_CLUSTER);
        const double ms =
            Books::Group(worker->cluster) == 0 ? m_settings.period1 : m_settings.period2;
        worker->period = static_cast<int64_t>(ms * 1e9);
        worker->updates = m_settings.updates;
        worker->jitter = m_settings.jitter;
        worker->until = static_cast<int64_t>(m_settings.until * 1e12);
        worker->payload = FRAME_BYTES - g_books.offset;
        worker->send = way;
        m_hosts.Get(id)->AddApplication(worker);
    }

    Settings m_settings;
    NodeContainer m_hosts;
    NodeContainer m_leaves;
    Ptr<Node> m_root;
    Ptr<Node> m_server;
    std::vector<Link> m_up;
    std::vector<Link> m_leafUp;
    Link m_rootUp;
    Ptr<Socket> m_sink;
};

// ---------------------------------------------------------------------------------------------------------
// Results

double
MeanOf(const std::vector<double>& values, size_t from, size_t to)
{
    double sum = 0;
    for (size_t i = from; i < to; i++)
    {
        sum += values[i];
    }
    return sum / static_cast<double>(to - from);
}

void
PrintAges(const char* name, std::vector<Flow>& flows)
{
    std::vector<double> ages;
    for (Flow& flow : flows)
    {
        ages.push_back(flow.Mean());
    }
    const size_t n = ages.size();
    double squares = 0;
    for (double age : ages)
    {
        squares += age * age;
    }
    const double mean = MeanOf(ages, 0, n);
    std::cout << ",\"aom_" << name << "_ms\":" << mean << ",\"aom_" << name
              << "_s1_ms\":" << MeanOf(ages, 0, n / 2) << ",\"aom_" << name
              << "_s2_ms\":" << MeanOf(ages, n / 2, n) << ",\"fairness_" << name
              << "\":" << mean * mean / (squares / static_cast<double>(n));
}

void
Print(const Settings& settings, double wall, uint64_t events)
{
    Books& b = g_books;
    const uint64_t sent = b.sent[0] + b.sent[1];
    const uint64_t dropped = b.dropped[0] + b.dropped[1];
    const uint64_t delivered = b.deliveredAlone + b.deliveredMerged;
    const uint64_t inFlight = sent - dropped - delivered - b.subsumed;
    NS_ABORT_MSG_IF(settings.until == 0 && inFlight != 0, "the balance does not close");
    auto share = [](uint64_t part, uint64_t whole) {
        return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
    };
    std::cout.precision(10);
    std::cout << "{\"queue\":\"" << settings.queue << "\",\"stack\":\"" << settings.stack
              << "\",\"ties\":\"" << settings.ties << "\",\"run\":" << settings.run
              << ",\"wall_s\":" << wall << ",\"packets_per_s\":" << static_cast<double>(sent) / wall
              << ",\"events\":" << events
              << ",\"events_per_s\":" << static_cast<double>(events) / wall << ",\"sent\":" << sent
              << ",\"received\":" << b.received << ",\"delivered\":" << delivered
              << ",\"delivered_merged\":" << b.deliveredMerged << ",\"dropped\":" << dropped
              << ",\"subsumed\":" << b.subsumed << ",\"merges\":" << b.merges
              << ",\"in_flight\":" << inFlight << ",\"loss\":" << share(dropped, sent)
              << ",\"loss_s1\":" << share(b.dropped[0], b.sent[0])
              << ",\"loss_s2\":" << share(b.dropped[1], b.sent[1]);
    PrintAges("worker", b.workers);
    PrintAges("cluster", b.clusters);
    std::cout << "}" << std::endl;
}

} // namespace

int
main(int argc, char* argv[])
{
    Time::SetResolution(Time::PS);
    Settings s;
    CommandLine cmd(__FILE__);
    cmd.AddValue("queue", "fifo or olaf", s.queue);
    cmd.AddValue("stack", "ip: UDP over ns-3's IPv4; device: bare frames from device to device", s.stack);
    cmd.AddValue("ties",
                 "departure and arrival at one instant: ns3 takes what was planned first; departures "
                 "(stack device only) lets departures go first",
                 s.ties);
    cmd.AddValue("run", "run number of ns-3's random generator", s.run);
    cmd.AddValue("updates", "updates per worker", s.updates);
    cmd.AddValue("period1", "period of the workers of clusters 0-4, in ms", s.period1);
    cmd.AddValue("period2", "period of the workers of clusters 5-9, in ms", s.period2);
    cmd.AddValue("jitter", "share of the period by which a gap is off at most", s.jitter);
    cmd.AddValue("until", "cut the run here, in s of simulated time; 0: run until all is delivered", s.until);
    cmd.AddValue("trace", "write every generation to this file, as CSV", s.trace);
    cmd.AddValue("leafRate", "rate of SW1 and SW2 towards SW3", s.leafRate);
    cmd.AddValue("rootRate", "rate of SW3 towards the server", s.rootRate);
    cmd.AddValue("leafSlots", "packets that wait at SW1 and SW2", s.leafSlots);
    cmd.AddValue("rootSlots", "packets that wait at SW3", s.rootSlots);
    cmd.Parse(argc, argv);
    const bool known = (s.queue == "fifo" || s.queue == "olaf") &&
                       (s.stack == "ip" || s.stack == "device") &&
                       (s.ties == "ns3" || (s.ties == "departures" && s.stack == "device"));
    if (!known)
    {
        std::cerr << "--queue is fifo or olaf, --stack ip or device, --ties ns3 or (with --stack=device) "
                     "departures\n";
        return 2;
    }
    if (!s.trace.empty())
    {
        g_books.trace.open(s.trace);
        g_books.trace << "t_ps,cluster,worker,seq,reward\n";
    }
    RngSeedManager::SetSeed(1);
    RngSeedManager::SetRun(s.run);
    Network network(s);
    if (s.until > 0)
    {
        // The instant itself still belongs to the run.
        Simulator::Stop(PicoSeconds(static_cast<int64_t>(s.until * 1e12) + 1));
    }
    const auto start = std::chrono::steady_clock::now();
    Simulator::Run();
    const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
    Print(s, wall.count(), Simulator::GetEventCount());
    Simulator::Destroy();
    g_books.trace.flush();
    if (!s.trace.empty() && !g_books.trace)
    {
        std::cerr << "--trace=" << s.trace << " cannot be written\n";
        return 1;
    }
    return 0;
}
