// What both programs are told, workers, links, and frames that go from device to device without a protocol stack.
#pragma once

#include "olaf_queue.h"

#include "ns3/point-to-point-module.h"

namespace
{

/// What both programs are told.
struct Common
{
    Common(uint32_t updates, double jitter)
        : updates(updates),
          jitter(jitter)
    {
    }

    std::string ties{"ns3"};
    std::string trace;
    uint32_t run{1};
    uint32_t updates;
    double jitter;

    void AddTo(CommandLine& cmd)
    {
        cmd.AddValue("ties",
                     "departure and arrival at one instant: ns3 takes what was planned first; departures, of bare frames only, lets departures "
                     "go first",
                     ties);
        cmd.AddValue("trace", "write every generation to this file, as CSV", trace);
        cmd.AddValue("run", "run number of ns-3's random generator", run);
        cmd.AddValue("updates", "updates per worker", updates);
        cmd.AddValue("jitter", "share of the period by which a gap is off at most", jitter);
    }

    /// Before the network is made.
    void Begin() const
    {
        if (!trace.empty())
        {
            g_books.Trace(trace);
        }
        RngSeedManager::SetSeed(1);
        RngSeedManager::SetRun(run);
    }

    /// After the run: the exit code.
    int End() const
    {
        g_books.trace.flush();
        if (!trace.empty() && !g_books.trace)
        {
            std::cerr << "--trace=" << trace << " cannot be written\n";
            return 1;
        }
        return 0;
    }
};

/// A periodic worker: a random phase, then gaps off by up to the jitter's share of the period.
class Worker : public Application
{
  public:
    Worker(uint32_t id, double periodMs, uint32_t count, double share)
        : cluster(id / g_books.PerCluster()),
          worker(id),
          updates(count),
          period(static_cast<int64_t>(periodMs * 1e9)),
          jitter(share)
    {
    }

    uint16_t cluster;
    uint32_t worker;
    uint32_t updates;
    int64_t period; //!< ps
    double jitter;
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

/// One uplink: the device that sends and the one that receives.
using Link = std::pair<Ptr<PointToPointNetDevice>, Ptr<PointToPointNetDevice>>;

/// A link with no delay; `slots` 0 leaves ns-3's default queue, which hosts never fill.
Link
Connect(Ptr<Node> from, Ptr<Node> to, const std::string& rate, const std::string& kind = "fifo", uint32_t slots = 0)
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
        if (kind == "olaf")
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

} // namespace
