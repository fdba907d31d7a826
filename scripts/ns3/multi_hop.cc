// OLAF's multi-hop scenario (Figure 9) in ns-3: a second implementation of what pktgen simulates in
// virtual time, sharing no code with it. `compare` beside this file builds and runs both.
//
// 10 clusters of 10 workers, one host each. Clusters 0-4 (group S1) reach SW1, 5-9 (S2) reach SW2, both
// reach SW3, and that the parameter server. Frames have 1000 bytes on every link, PPP header included;
// the queue of a device does not hold the frame in transmission. Uplink only: nobody answers.

#include "hosts.h"

#include <chrono>
#include <iostream>

namespace
{

constexpr uint32_t CLUSTERS = 10;
constexpr uint32_t PER_CLUSTER = 10;
constexpr uint32_t WORKERS = CLUSTERS * PER_CLUSTER;
constexpr uint32_t LEAVES = 2;
constexpr uint32_t FRAME_BYTES = 1000;

void
SendOnSocket(Ptr<Socket> socket, Ptr<Packet> packet)
{
    socket->Send(packet);
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
struct Settings : Common
{
    Settings()
        : Common(1000, 0.1)
    {
    }

    std::string queue{"fifo"};
    std::string stack{"ip"};
    double period1{100};
    double period2{100};
    double until{0};
    std::string leafRate{"800kbps"};
    std::string rootRate{"1Mbps"};
    uint32_t leafSlots{5};
    uint32_t rootSlots{8};
};

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
            const uint32_t leaf = g_books.Group(worker / PER_CLUSTER);
            m_up.push_back(Connect(m_hosts.Get(worker), m_leaves.Get(leaf), "1Gbps"));
        }
        for (uint32_t leaf = 0; leaf < LEAVES; leaf++)
        {
            m_leafUp.push_back(
                Connect(m_leaves.Get(leaf), m_root, settings.leafRate, settings.queue, settings.leafSlots));
        }
        m_rootUp = Connect(m_root, m_server, settings.rootRate, settings.queue, settings.rootSlots);
        m_rootUp.second->TraceConnectWithoutContext("PhyRxEnd", MakeCallback(&CheckFrame));
        std::vector<Callback<void, Ptr<Packet>>> ways =
            settings.stack == "ip" ? InstallIp() : InstallDevices();
        for (uint32_t worker = 0; worker < WORKERS; worker++)
        {
            InstallWorker(worker, ways[worker]);
        }
    }

  private:
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
            Ptr<NetDevice> uplink = m_leafUp[g_books.Group(worker / PER_CLUSTER)].first;
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
        const double ms = g_books.Group(id / PER_CLUSTER) == 0 ? m_settings.period1 : m_settings.period2;
        Ptr<Worker> worker = CreateObject<Worker>(id, ms, m_settings.updates, m_settings.jitter);
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
    std::cout.precision(10);
    std::cout << "{\"queue\":\"" << settings.queue << "\",\"stack\":\"" << settings.stack
              << "\",\"ties\":\"" << settings.ties << "\",\"run\":" << settings.run << ",";
    PrintCounts(settings.until, wall, events);
    PrintAges("worker", g_books.workers);
    PrintAges("cluster", g_books.clusters);
    std::cout << "}" << std::endl;
}

} // namespace

int
main(int argc, char* argv[])
{
    Time::SetResolution(Time::PS);
    Settings s;
    CommandLine cmd(__FILE__);
    s.AddTo(cmd);
    cmd.AddValue("queue", "fifo or olaf", s.queue);
    cmd.AddValue("stack", "ip: UDP over ns-3's IPv4; device: bare frames from device to device", s.stack);
    cmd.AddValue("period1", "period of the workers of clusters 0-4, in ms", s.period1);
    cmd.AddValue("period2", "period of the workers of clusters 5-9, in ms", s.period2);
    cmd.AddValue("until", "cut the run here, in s of simulated time; 0: run until all is delivered", s.until);
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
    s.Begin();
    g_books.Size(CLUSTERS, PER_CLUSTER);
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
    return s.End();
}
