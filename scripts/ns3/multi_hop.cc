// OLAF's multi-hop scenario (Figure 9) in ns-3: a second implementation of what pktgen simulates in
// virtual time, sharing no code with it. `compare` beside this file builds and runs both.
//
// 10 clusters of 10 workers, one host each. Clusters 0-4 (group S1) reach SW1, 5-9 (S2) reach SW2, both
// reach SW3, and that the parameter server. Frames have 1000 bytes on every link, PPP header included;
// the queue of a device does not hold the frame in transmission. Uplink only: nobody answers.

#include "books.h"
#include "olaf_queue.h"

#include "ns3/point-to-point-module.h"

#include <chrono>
#include <fstream>
#include <iostream>

namespace
{

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
