// OLAF over a fat tree in ns-3: the network of pktgen's `topology.kind = "fat_tree"`, of switches of `ports` ports, for speed and memory in
// large networks. `compare-large` beside this file builds and runs both.
//
// Workers are dealt to edge switches one after the other, a host each; the server is on the last edge switch. Ways towards it take the
// first of several shortest ones: the first aggregation switch of a pod, and of the cores the first. All links have one rate, no delay, and
// an Olaf queue where a switch sends towards the server. Uplink only, bare frames from device to device.

#include "hosts.h"

#include <chrono>

namespace
{

struct Settings : Common
{
    Settings()
        : Common(60, 0.3)
    {
    }

    uint32_t ports{8};
    uint32_t clusters{4};
    uint32_t perCluster{16};
    uint32_t bytes{256};
    double period{100};
    std::string rate{"49152bps"};
};

class Network
{
  public:
    explicit Network(const Settings& settings)
        : m_settings(settings)
    {
        const uint32_t half = settings.ports / 2;
        const uint32_t edges = half * settings.ports;
        m_edges.Create(edges);
        m_middle.Create(edges);
        m_cores.Create(half * half);
        const uint32_t workers = settings.clusters * settings.perCluster;
        m_hosts.Create(workers);
        m_server = CreateObject<Node>();
        const uint32_t last = settings.ports - 1;
        Up(m_edges.Get(edges - 1), m_server, true);
        for (uint32_t pod = 0; pod < settings.ports; pod++)
        {
            for (uint32_t j = 0; j < half; j++)
            {
                for (uint32_t i = 0; i < half; i++)
                {
                    const bool servers = pod == last && i == half - 1;
                    Ptr<Node> edge = m_edges.Get(pod * half + i);
                    Ptr<Node> middle = m_middle.Get(pod * half + j);
                    // What comes up from the pod's other edges, or from a core, goes down to the server's edge.
                    Join(edge, middle, servers, j == 0);
                }
                for (uint32_t i = 0; i < half; i++)
                {
                    Join(m_middle.Get(pod * half + j), m_cores.Get(j * half + i), pod == last, j == 0 && i == 0);
                }
            }
        }
        auto* forward = settings.ties == "departures" ? &ForwardAfterDepartures : &Forward;
        for (auto& [node, uplink] : m_uplinks)
        {
            for (Ptr<NetDevice> device : m_incoming[node])
            {
                device->SetReceiveCallback(MakeBoundCallback(forward, uplink));
            }
        }
        for (uint32_t id = 0; id < workers; id++)
        {
            Ptr<Node> edge = m_edges.Get(id % edges);
            Link link = Connect(m_hosts.Get(id), edge, settings.rate);
            link.second->SetReceiveCallback(MakeBoundCallback(forward, m_uplinks[edge->GetId()]));
            Ptr<Worker> worker = CreateObject<Worker>(id, settings.period, settings.updates, settings.jitter);
            worker->payload = settings.bytes - PPP_BYTES;
            Ptr<NetDevice> device = link.first;
            worker->send = MakeBoundCallback(&SendOnDevice, device);
            m_hosts.Get(id)->AddApplication(worker);
        }
    }

  private:
    /// A link by which `from` sends towards the server.
    void Up(Ptr<Node> from, Ptr<Node> to, bool server)
    {
        Link link = Connect(from, to, m_settings.rate, "olaf", m_settings.clusters);
        m_uplinks[from->GetId()] = link.first;
        if (server)
        {
            link.second->SetReceiveCallback(MakeCallback(&ReceiveOnDevice));
        }
        else
        {
            m_incoming[to->GetId()].push_back(link.second);
        }
    }

    /// A cable between two switches; `down`: towards the server it is used by the upper one.
    void Join(Ptr<Node> below, Ptr<Node> above, bool down, bool used)
    {
        if (!used)
        {
            Connect(below, above, m_settings.rate);
        }
        else if (down)
        {
            Up(above, below, false);
        }
        else
        {
            Up(below, above, false);
        }
    }

    Settings m_settings;
    NodeContainer m_edges;
    NodeContainer m_middle;
    NodeContainer m_cores;
    NodeContainer m_hosts;
    Ptr<Node> m_server;
    std::unordered_map<uint32_t, Ptr<NetDevice>> m_uplinks;
    std::unordered_map<uint32_t, std::vector<Ptr<NetDevice>>> m_incoming;
};

/// The most memory that was in use, in MB.
double
Memory()
{
    std::ifstream status("/proc/self/status");
    std::string line;
    while (std::getline(status, line))
    {
        if (line.rfind("VmHWM:", 0) == 0)
        {
            return std::stod(line.substr(6)) * 1.024e-3;
        }
    }
    return 0;
}

} // namespace

int
main(int argc, char* argv[])
{
    Time::SetResolution(Time::PS);
    Settings s;
    CommandLine cmd(__FILE__);
    s.AddTo(cmd);
    cmd.AddValue("ports", "ports of a switch, an even number", s.ports);
    cmd.AddValue("clusters", "clusters of workers, and updates that wait at a switch", s.clusters);
    cmd.AddValue("perCluster", "workers of a cluster", s.perCluster);
    cmd.AddValue("bytes", "bytes of a frame on a link", s.bytes);
    cmd.AddValue("period", "period of workers, in ms", s.period);
    cmd.AddValue("rate", "rate of every link", s.rate);
    cmd.Parse(argc, argv);
    const uint64_t room = uint64_t(s.ports) * s.ports * s.ports / 4;
    if ((s.ties != "ns3" && s.ties != "departures") || s.ports < 2 || s.ports % 2 != 0 || s.clusters == 0 || s.perCluster == 0 ||
        s.clusters * s.perCluster > room || s.bytes < PPP_BYTES + UpdateHeader::BYTES)
    {
        std::cerr << "--ties is ns3 or departures, --ports even, with room for ports^3 / 4 workers in clusters, --bytes at least "
                  << PPP_BYTES + UpdateHeader::BYTES << "\n";
        return 2;
    }
    g_books.Size(s.clusters, s.perCluster);
    s.Begin();
    const auto begun = std::chrono::steady_clock::now();
    Network network(s);
    const auto start = std::chrono::steady_clock::now();
    Simulator::Run();
    const auto end = std::chrono::steady_clock::now();
    const std::chrono::duration<double> planned = start - begun;
    const std::chrono::duration<double> wall = end - start;
    std::cout.precision(10);
    std::cout << "{\"workers\":" << s.clusters * s.perCluster << ",\"nodes\":" << NodeList::GetNNodes() << ",\"planned_s\":" << planned.count()
              << ",\"memory_mb\":" << Memory() << ",";
    PrintCounts(0, wall.count(), Simulator::GetEventCount());
    std::cout << "}" << std::endl;
    const int code = s.End();
    // Nothing is taken down: of a large network that takes as long as a run.
    std::cout.flush();
    std::_Exit(code);
}
