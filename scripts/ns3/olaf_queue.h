// An Olaf queue for ns-3's devices, after the paper's Algorithm 1 and nothing of pktgen's.
#pragma once

#include "books.h"

#include <list>

namespace
{

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

    std::unordered_map<uint16_t, Waiting> m_waiting;
};

NS_OBJECT_ENSURE_REGISTERED(OlafQueue);

} // namespace
