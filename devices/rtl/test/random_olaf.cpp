// Olaf's queue against a naive model of Algorithm 1. When the device decides and when departures begin is its own time; what it
// decides, in which order updates leave, every byte of them and all counts must be the model's. Usage: random_olaf PACKETS SEED
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>

#include "device.h"
#include "frames.h"
#include "tables.h"

namespace {

const uint32_t SERVER = 0xc6120001, FIRST = 0x0a000001;
enum { APPENDED = 1, MERGED, SUBSUMED, OUTRANKED, FULL, LOW, MALFORMED };

struct Update {
    unsigned worker, cluster;
    Bytes bytes;
};

struct Waiting {
    unsigned worker, cluster, count;
    bool replaceable;
    Bytes bytes;
};

float float_at(const Bytes &f, size_t at) {
    float v;
    std::memcpy(&v, &f[at], 4);
    return v;
}

struct Settings {
    unsigned slots;
    bool hold, filter;
    float threshold;
};

// Algorithm 1 with the rules of docs/olaf.md, over a list of updates that wait.
struct Model {
    Settings settings;
    std::deque<Waiting> queue;
    std::deque<Update> arrivals;   // updates that the device has not decided upon
    std::deque<Bytes> departing;   // begun, and not yet out
    std::deque<Bytes> around;
    std::map<unsigned, uint64_t> counts;
    uint64_t contributions = 0;

    unsigned decide(const Update &update) {
        for (Waiting &waiting : queue) {
            if (waiting.cluster != update.cluster) continue;
            if (waiting.replaceable && waiting.worker == update.worker) return replace(waiting, update), SUBSUMED;
            float reward = float_at(update.bytes, 42), old = float_at(waiting.bytes, 42);
            if (settings.filter && reward - old > settings.threshold) return replace(waiting, update), OUTRANKED;
            if (settings.filter && reward - old < -settings.threshold) return LOW;
            if (waiting.bytes.size() != update.bytes.size()) return MALFORMED;
            merge(waiting, update, reward > old || std::isnan(old) ? 42 : 0);
            return MERGED;
        }
        if (queue.size() + (settings.hold ? departing.size() : 0) >= settings.slots) return FULL;
        queue.push_back({update.worker, update.cluster, 1, true, update.bytes});
        return APPENDED;
    }

    static void replace(Waiting &waiting, const Update &update) {
        waiting = {update.worker, update.cluster, 1, true, update.bytes};
    }

    static void merge(Waiting &waiting, const Update &update, int newer_reward) {
        Bytes sum = update.bytes;
        sum[40] = sum[41] = 0;
        if (!newer_reward) std::memcpy(&sum[42], &waiting.bytes[42], 4);
        for (size_t at = 46; at < sum.size(); at += 4) {
            volatile float x = float_at(waiting.bytes, at), y = float_at(update.bytes, at);
            float z = x + y;
            std::memcpy(&sum[at], &z, 4);
        }
        waiting = {update.worker, update.cluster, waiting.count + 1, false, sum};
    }
};

uint32_t number(Random &random) {
    uint32_t any = static_cast<uint32_t>(random.next());
    switch (random.below(10)) {
    case 0: return any & 0x80ffffff;
    case 1: return 0x7f800000 | (any & 0x807fffff);
    case 2: return (any & 0x80000000) | 0x7f7fffff;
    case 3: return any;
    default: return 0x3f000000 + (any & 0x81ffffff);
    }
}

struct Traffic {
    Random random;
    unsigned workers;
    Bytes update(unsigned worker, size_t gradients) {
        Bytes payload;
        float reward = static_cast<float>(random.below(1000)) / 100 - 5;
        uint32_t bits;
        std::memcpy(&bits, &reward, 4);
        if (random.one_in(50)) bits = number(random);
        for (size_t i = 0; i <= gradients; i++) {
            uint32_t value = i ? number(random) : bits;
            for (int k = 0; k < 4; k++) payload.push_back(static_cast<uint8_t>(value >> (8 * k)));
        }
        uint32_t ip = FIRST + worker;
        Bytes f = datagram({0x020000000000ull | ip, ip, 48511}, {0x0200c6120001, SERVER, 48510}, payload);
        if (random.one_in(2)) f[40] = static_cast<uint8_t>(random.next()), f[41] = static_cast<uint8_t>(random.next());
        return f;
    }
    // Frames that the queue must not take: they go around it, if they are not too long.
    Bytes other() {
        Bytes f = update(0, 1 + random.below(60));
        switch (random.below(8)) {
        case 0: return update(workers + static_cast<unsigned>(random.below(9)), 10);
        case 1: f[36 + random.below(2)] ^= 1; return f;
        case 2: f[12] ^= 1; return f;
        case 3: f[23] = 6; return f;
        case 4: f.push_back(0); return f;
        case 5: f[24] ^= 0x10; return f;
        case 6: f.resize(1600 + random.below(600)); return f;
        default: {
            Bytes noise(1 + random.below(1536));
            for (uint8_t &byte : noise) byte = static_cast<uint8_t>(random.next());
            return noise;
        }
        }
    }
};

uint64_t count_of(const std::string &json, const std::string &name) {
    size_t at = json.find("\"" + name + "\":");
    return at == std::string::npos ? ~0ull : std::strtoull(json.c_str() + at + name.size() + 3, nullptr, 10);
}

// The device and the model beside each other.
struct Trial {
    Device device{4000};
    Model model;
    std::vector<Frame> got;
    std::deque<Event> events;
    std::string wrong;

    void say(const std::string &what) {
        if (wrong.empty()) wrong = what;
    }

    void happened(const Event &event) {
        if (event.kind == DEPARTED) {
            if (model.queue.empty()) return say("a departure of an empty queue");
            Waiting &first = model.queue.front();
            if (first.worker != event.worker) say("an update of worker " + std::to_string(event.worker) + " departs, not of " + std::to_string(first.worker));
            if (first.count != event.count) say("a departure of " + std::to_string(event.count) + " updates, not of " + std::to_string(first.count));
            model.contributions += first.count;
            model.departing.push_back(first.bytes);
            model.queue.pop_front();
            return;
        }
        if (model.arrivals.empty()) return say("a decision without an arrival");
        Update update = model.arrivals.front();
        model.arrivals.pop_front();
        if (update.worker != event.worker) say("a decision about another worker");
        unsigned wanted = model.decide(update);
        if (wanted != event.kind) say("decision " + std::to_string(event.kind) + " instead of " + std::to_string(wanted));
        model.counts[wanted]++;
    }

    void left(const Frame &frame) {
        if (frame.ports != 2) say("another port than the server's");
        if (!model.around.empty() && frame.bytes == model.around.front()) return model.around.pop_front();
        if (model.departing.empty()) return say("a frame of " + std::to_string(frame.bytes.size()) + " bytes that did not depart");
        const Bytes &want = model.departing.front();
        size_t i = 0;
        while (i < want.size() && i < frame.bytes.size() && want[i] == frame.bytes[i]) i++;
        if (i < want.size() || i < frame.bytes.size())
            say("byte " + std::to_string(i) + " of " + std::to_string(frame.bytes.size()) + " differs (" + std::to_string(want.size()) + " expected)");
        model.departing.pop_front();
    }

    // Events and frames in the order of time; at one edge decisions and departures come before what is out then.
    void settle(int64_t until) {
        for (;;) {
            std::vector<Frame> out;
            int64_t t = device.advance(until, out);
            while (!events.empty()) happened(events.front()), events.pop_front();
            for (const Frame &frame : out) left(frame);
            if (t == until || !wrong.empty()) return;
        }
    }
};

bool run(unsigned workers, unsigned per_cluster, Settings settings, size_t gradients, uint64_t packets, uint64_t seed) {
    Trial trial;
    Traffic traffic{{seed}, workers};
    Random random{seed ^ 0x77};
    std::string wrong;
    trial.model.settings = settings;
    trial.device.room = SIZE_MAX;
    trial.device.watch = [&](const Event &event) { trial.events.push_back(event); };
    write_tables(trial.device, {"workers=" + std::to_string(workers), "per_cluster=" + std::to_string(per_cluster),
        "slots=" + std::to_string(settings.slots), std::string("hold=") + (settings.hold ? "1" : "0"),
        std::string("filter=") + (settings.filter ? "1" : "0"), "threshold=" + std::to_string(settings.threshold)}, wrong);
    uint64_t updates = 0, long_ones = 0;
    int64_t t = 0;
    for (uint64_t i = 0; i < packets && trial.wrong.empty(); i++) {
        if (random.one_in(25)) {
            Bytes f = traffic.other();
            trial.device.arrive(t, 0, f.data(), f.size());
            if (f.size() > 24 * 64) long_ones++;
            else trial.model.around.push_back(f);
        } else {
            unsigned worker = static_cast<unsigned>(random.below(workers));
            size_t length = random.one_in(40) ? random.below(300) : gradients + worker / per_cluster % 5 * 3;
            Bytes f = traffic.update(worker, length);
            trial.device.arrive(t, 0, f.data(), f.size());
            trial.model.arrivals.push_back({worker, worker / per_cluster, f});
            updates++;
        }
        if (random.one_in(200)) {
            trial.device.links[0].ps_per_byte = random.one_in(4) ? 0 : 50 + static_cast<double>(random.below(600));
            trial.device.links[0].store_bytes = 64 << random.below(4);
        }
        t += random.one_in(3) ? 0 : static_cast<int64_t>(random.below(gradients * 2000 + 40000));
        trial.settle(t);
    }
    trial.device.links[0].ps_per_byte = 0;
    while (trial.wrong.empty() && trial.device.next() >= 0) trial.settle(t += 1000000);
    Model &model = trial.model;
    if (!model.queue.empty() || !model.arrivals.empty() || !model.departing.empty() || !model.around.empty()) trial.say("something is left behind");
    std::string counters = trial.device.counters();
    auto hold = [&](const char *name, uint64_t want) {
        if (count_of(counters, name) != want) trial.say(std::string(name) + " should be " + std::to_string(want));
    };
    static const char *const names[] = {"", "appended", "merged", "subsumed", "outranked", "queue_full", "reward_low"};
    for (unsigned kind = APPENDED; kind <= LOW; kind++) {
        hold(names[kind], model.counts[kind]);
        bool never = (!settings.filter && (kind == OUTRANKED || kind == LOW)) || (kind == FULL && workers / per_cluster < settings.slots);
        if (packets >= 10000 && !never && model.counts[kind] == 0) trial.say(std::string("nothing was ") + names[kind]);
    }
    hold("updates", updates);
    hold("malformed", model.counts[MALFORMED] + long_ones);
    // Every update is in a departure, replaced or dropped.
    if (model.contributions + model.counts[FULL] + model.counts[LOW] + model.counts[MALFORMED] > updates) trial.say("updates were made");
    std::printf("workers %u slots %u hold %d filter %d gradients %zu: %s%s\n", workers, settings.slots, settings.hold, settings.filter,
        gradients, trial.wrong.c_str(), counters.c_str());
    return trial.wrong.empty();
}

}  // namespace

int main(int count, char **words) {
    uint64_t packets = (count > 1 ? std::strtoull(words[1], nullptr, 10) : 100000) / 5;
    uint64_t seed = count > 2 ? std::strtoull(words[2], nullptr, 10) : 1;
    bool right = run(27, 3, {8, false, false, 1.5f}, 46, packets, seed) && run(27, 3, {8, true, true, 1.5f}, 46, packets, seed + 1) &&
                 run(40, 4, {3, false, true, 0.5f}, 4, packets, seed + 2) && run(9, 3, {2, true, false, 1.5f}, 300, packets, seed + 3) &&
                 run(128, 2, {16, false, true, 3.0f}, 17, packets, seed + 4);
    return right ? 0 : 1;
}
