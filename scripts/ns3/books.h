// The update on the wire, its fates and ages: what the queue, the hosts and the results of both programs share.
#pragma once

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <unordered_map>
#include <vector>

using namespace ns3;

namespace
{

constexpr uint32_t GROUPS = 2;
constexpr uint32_t PPP_BYTES = 2;
constexpr uint32_t IP_UDP_BYTES = 28;
constexpr uint16_t PORT = 9000;

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
    std::vector<Flow> workers;
    std::vector<Flow> clusters;
    uint64_t sent[GROUPS]{};
    uint64_t dropped[GROUPS]{};
    uint64_t subsumed{0};
    uint64_t merges{0};
    uint64_t deliveredAlone{0};
    uint64_t deliveredMerged{0};
    uint64_t received{0};
    uint32_t offset{PPP_BYTES}; //!< of the update in a frame on a device
    std::ofstream trace;        //!< generations, as a CSV that pktgen reads; closed if nobody asked

    void Size(uint32_t clusterCount, uint32_t perCluster)
    {
        clusters.resize(clusterCount);
        workers.resize(clusterCount * perCluster);
    }

    void Trace(const std::string& file)
    {
        trace.open(file);
        trace << "t_ps,cluster,worker,seq,reward\n";
    }

    uint32_t PerCluster() const
    {
        return workers.size() / clusters.size();
    }

    /// The half of the clusters that this one is of.
    uint32_t Group(uint16_t cluster) const
    {
        return cluster * GROUPS / clusters.size();
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

/// Counts, as members of a JSON object. `until` is where the run was cut, 0 for nowhere.
void
PrintCounts(double until, double wall, uint64_t events)
{
    Books& b = g_books;
    const uint64_t sent = b.sent[0] + b.sent[1];
    const uint64_t dropped = b.dropped[0] + b.dropped[1];
    const uint64_t delivered = b.deliveredAlone + b.deliveredMerged;
    const uint64_t inFlight = sent - dropped - delivered - b.subsumed;
    NS_ABORT_MSG_IF(until == 0 && inFlight != 0, "the balance does not close");
    auto share = [](uint64_t part, uint64_t whole) {
        return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
    };
    std::cout << "\"wall_s\":" << wall << ",\"packets_per_s\":" << static_cast<double>(sent) / wall
              << ",\"events\":" << events
              << ",\"events_per_s\":" << static_cast<double>(events) / wall << ",\"sent\":" << sent
              << ",\"received\":" << b.received << ",\"delivered\":" << delivered
              << ",\"delivered_merged\":" << b.deliveredMerged << ",\"dropped\":" << dropped
              << ",\"subsumed\":" << b.subsumed << ",\"merges\":" << b.merges
              << ",\"in_flight\":" << inFlight << ",\"loss\":" << share(dropped, sent)
              << ",\"loss_s1\":" << share(b.dropped[0], b.sent[0])
              << ",\"loss_s2\":" << share(b.dropped[1], b.sent[1]);
}

} // namespace
