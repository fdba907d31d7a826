// The slot adder against a naive model: random workers with losses, repeats and frames out of order, and frames that are no
// packets. Every byte of every result, its ports and all counts must be equal. Usage: random_switchml PACKETS SEED
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <set>

#include "device.h"
#include "frames.h"
#include "tables.h"

namespace {

const uint32_t SWITCH = 0xc6120001, GROUP = 0xefc00007, FIRST = 0x0a000001;
const uint64_t SWITCH_MAC = 0x0200c6120001, GROUP_MAC = 0x01005e400007;

struct Result {
    uint32_t ports;
    Bytes bytes;
};

// One set of one slot, as the rules of docs/switchml.md read.
struct Sum {
    std::set<unsigned> bitmap;
    unsigned left = 0;
    int e0 = 0, e1 = 0;
    std::vector<uint32_t> values;
};

struct Model {
    unsigned workers, elements, pool;
    std::map<std::pair<unsigned, unsigned>, Sum> sums;  // by slot and set
    std::map<unsigned, unsigned> ports;
    std::map<std::string, uint64_t> counts;

    static uint32_t at(const Bytes &f, size_t i, int bytes) {
        uint32_t v = 0;
        for (int k = 0; k < bytes; k++) v = v << 8 | f[i + static_cast<size_t>(k)];
        return v;
    }

    static unsigned values_of(const Bytes &f) {
        if (f.size() < 52 || at(f, 12, 2) != 0x0800 || f[14] != 0x45 || f[23] != 17) return 0;
        if (at(f, 20, 2) & 0x3fff || inverse_sum(&f[14], 20) != 0 || at(f, 16, 2) != at(f, 38, 2) + 20) return 0;
        if (f.size() < 14 + at(f, 16, 2) || f.size() > 17 * 64 || at(f, 36, 2) >> 4 != 0xbee) return 0;
        unsigned n = f[42] == 0x11 ? 64 : f[42] == 0x13 ? 256 : 0;
        return n && at(f, 38, 2) == 8 + 10 + 4 * n ? n : 0;
    }

    Result answer(const Bytes &f, const Sum &sum, bool alone, unsigned port) {
        Address self{SWITCH_MAC, SWITCH, static_cast<uint16_t>(at(f, 36, 2))};
        uint64_t mac = static_cast<uint64_t>(at(f, 6, 2)) << 32 | at(f, 8, 4);
        Address to{alone ? mac : GROUP_MAC, alone ? at(f, 26, 4) : GROUP, static_cast<uint16_t>(at(f, 34, 2))};
        Bytes payload(f.begin() + 42, f.begin() + 50);
        payload.push_back(static_cast<uint8_t>(sum.e0));
        payload.push_back(static_cast<uint8_t>(sum.e1));
        for (uint32_t value : sum.values) big(payload, value, 4);
        uint32_t all = 0;
        for (auto &[worker, on] : ports) all |= 1u << on;
        return {alone ? 1u << port : all, datagram(self, to, payload)};
    }

    void take(const Bytes &f, unsigned port, std::deque<Result> &out) {
        counts["packets"]++;
        unsigned n = values_of(f);
        if (!n) return void(counts["malformed"]++);
        unsigned worker = at(f, 26, 4) - FIRST, which = at(f, 48, 2), slot = which & 0x3fff, set = which >> 15;
        if (worker >= workers) return void(counts["unknown_source"]++);
        if (n != elements) return void(counts["wrong_count"]++);
        if (slot >= pool) return void(counts["table_full"]++);
        ports[worker] = port;
        Sum &own = sums[{slot, set}], &other = sums[{slot, 1 - set}];
        other.bitmap.erase(worker);
        if (own.bitmap.count(worker)) {
            if (own.left) return void(counts["duplicates_dropped"]++);
            counts["duplicates_answered"]++;
            return out.push_back(answer(f, own, true, port));
        }
        bool first = own.bitmap.empty(), last = own.left == 1 || workers == 1;
        own.left = own.left == 0 ? workers - 1 : own.left - 1;
        own.bitmap.insert(worker);
        int e0 = static_cast<int8_t>(f[50]), e1 = static_cast<int8_t>(f[51]);
        own.e0 = first ? e0 : std::max(own.e0, e0);
        own.e1 = first ? e1 : std::max(own.e1, e1);
        if (first) own.values.assign(n, 0);
        for (unsigned i = 0; i < n; i++) own.values[i] += at(f, 52 + 4 * i, 4);
        if (!last) return;
        counts["results"]++;
        out.push_back(answer(f, own, false, port));
    }
};

// What workers send: mostly what the protocol lets them, and now and then anything.
struct Traffic {
    Random random;
    unsigned workers, elements, pool;
    std::vector<std::vector<unsigned>> round;  // by worker and slot

    Bytes packet() {
        unsigned worker = static_cast<unsigned>(random.below(workers)), slot = static_cast<unsigned>(random.below(pool));
        unsigned &own = round[worker][slot];
        unsigned least = ~0u;
        for (auto &other : round) least = std::min(least, other[slot]);
        // Nobody is two rounds ahead; who is ahead repeats. One in fifty packets is of any set.
        unsigned now = own;
        if (own == least) own++;
        else now = own - 1;
        unsigned set = random.one_in(50) ? static_cast<unsigned>(random.below(2)) : now & 1;
        return make(worker, slot, set, elements);
    }

    Bytes make(unsigned worker, unsigned slot, unsigned set, unsigned n) {
        Bytes payload{static_cast<uint8_t>(n == 64 ? 0x11 : 0x13), static_cast<uint8_t>(random.next())};
        big(payload, random.next(), 4);
        big(payload, set << 15 | (random.one_in(9) ? 1u << 14 : 0) | slot, 2);
        big(payload, random.next(), 2);
        bool extreme = random.one_in(4);
        for (unsigned i = 0; i < n; i++) big(payload, extreme ? 0x7fffffff + random.below(3) : random.next(), 4);
        uint32_t ip = FIRST + worker;
        return datagram({0x020000000000ull | ip, ip, 4000}, {SWITCH_MAC, SWITCH, 0xbee0}, payload);
    }

    // What a device must refuse, or take all the same.
    Bytes odd() {
        unsigned other = elements == 64 ? 256 : 64;
        Bytes f = make(0, static_cast<unsigned>(random.below(pool)), 0, elements);
        switch (random.below(12)) {
        case 0: return make(workers + static_cast<unsigned>(random.below(40)), 0, 0, elements);
        case 1: return make(0, pool + static_cast<unsigned>(random.below(0x4000 - pool)), 0, elements);
        case 2: return make(0, 0, 0, other);
        case 3: f.resize(1 + random.below(f.size() - 1)); return f;
        case 4: f.resize(f.size() + 1 + random.below(2000)); return f;
        case 5: f[14 + random.below(20)] ^= static_cast<uint8_t>(1 << random.below(8)); return f;
        case 6: f[34 + random.below(6)] ^= static_cast<uint8_t>(1 << random.below(8)); return f;
        case 7: f[42] ^= static_cast<uint8_t>(1 << random.below(8)); return f;
        case 8: f[12 + random.below(2)] ^= 1; return f;
        case 9: f[37] = static_cast<uint8_t>(0xe0 + random.below(16)); return f;
        case 10: f[random.below(f.size())] ^= static_cast<uint8_t>(1 << random.below(8)); return f;
        default: {
            Bytes noise(1 + random.below(1500));
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

bool same(const std::vector<Frame> &got, std::deque<Result> &wanted) {
    for (const Frame &frame : got) {
        if (wanted.empty()) return std::printf("a frame of %zu bytes too many\n", frame.bytes.size()), false;
        Result want = std::move(wanted.front());
        wanted.pop_front();
        if (frame.ports != want.ports) return std::printf("ports %#x instead of %#x\n", frame.ports, want.ports), false;
        size_t i = 0;
        while (i < frame.bytes.size() && i < want.bytes.size() && frame.bytes[i] == want.bytes[i]) i++;
        if (i < frame.bytes.size() || i < want.bytes.size())
            return std::printf("byte %zu differs (%zu, %zu bytes)\n", i, frame.bytes.size(), want.bytes.size()), false;
    }
    return true;
}

// So many packets for one configuration.
bool run(unsigned workers, unsigned elements, unsigned pool, uint64_t packets, uint64_t seed) {
    Device device(4000);
    device.room = SIZE_MAX;
    std::string wrong;
    write_tables(device, {"workers=" + std::to_string(workers), "group=239.192.0.7", "elements=" + std::to_string(elements),
        "pool=" + std::to_string(pool)}, wrong);
    Traffic traffic{{seed}, workers, elements, pool, {workers, std::vector<unsigned>(pool, 0)}};
    Random random{seed ^ 0x5555};
    Model model{workers, elements, pool, {}, {}, {}};
    std::deque<Result> wanted;
    std::vector<Frame> got;
    std::vector<std::pair<Bytes, unsigned>> held;
    int64_t t = 0;
    auto give = [&](const Bytes &f, unsigned port) {
        device.arrive(t, port, f.data(), f.size());
        model.take(f, port, wanted);
    };
    for (uint64_t i = 0; i < packets; i++) {
        Bytes f = random.one_in(20) ? traffic.odd() : traffic.packet();
        unsigned port = random.one_in(100) ? static_cast<unsigned>(random.below(32)) : f.size() > 29 ? f[29] % 32 : 0;
        if (random.one_in(30)) held.push_back({f, port});  // comes late, too
        if (!random.one_in(40)) give(f, port);             // else lost
        if (!held.empty() && random.one_in(25)) {
            size_t which = random.below(held.size());
            give(held[which].first, held[which].second);
            held.erase(held.begin() + static_cast<long>(which));
        }
        // A link that sometimes takes less than comes.
        if (random.one_in(500)) device.links[0].ps_per_byte = random.one_in(2) ? 0 : 50 + static_cast<double>(random.below(200));
        t += random.one_in(3) ? 0 : static_cast<int64_t>(random.below(200000));
        while (device.advance(t, got) < t) {}
        if (random.one_in(300)) {
            device.links[0].ps_per_byte = 0;
            while (device.next() >= 0) t = std::max(t, device.advance(t + 4000, got));
        }
        if (!same(got, wanted)) return std::printf("packet %llu\n", static_cast<unsigned long long>(i)), false;
        got.clear();
    }
    device.links[0].ps_per_byte = 0;
    while (device.next() >= 0) t = device.advance(t + 1000000, got);
    if (!same(got, wanted)) return false;
    if (!wanted.empty()) return std::printf("%zu results are missing\n", wanted.size()), false;
    std::string counters = device.counters();
    for (const char *name : {"packets", "results", "duplicates_answered", "duplicates_dropped", "malformed", "unknown_source",
             "wrong_count", "table_full"}) {
        uint64_t counted = count_of(counters, name), want = model.counts[name];
        if (counted != want) return std::printf("%s: %llu instead of %llu\n", name, static_cast<unsigned long long>(counted), static_cast<unsigned long long>(want)), false;
        // A rule that nothing met was not tried.
        bool never = std::string(name) == "duplicates_dropped" && workers == 1;
        if (want == 0 && packets >= 10000 && !never) return std::printf("nothing was counted as %s\n", name), false;
    }
    std::printf("workers %u elements %u pool %u: %s\n", workers, elements, pool, counters.c_str());
    return true;
}

}  // namespace

int main(int count, char **words) {
    uint64_t packets = count > 1 ? std::strtoull(words[1], nullptr, 10) : 100000;
    uint64_t seed = count > 2 ? std::strtoull(words[2], nullptr, 10) : 1;
    const unsigned cases[][3] = {{4, 64, 7}, {4, 256, 512}, {1, 64, 3}, {32, 64, 2}, {3, 256, 1}};
    for (auto &[workers, elements, pool] : cases) {
        if (run(workers, elements, pool, packets / 5, seed++)) continue;
        std::printf("workers %u elements %u pool %u seed %llu: the device and its model differ\n", workers, elements, pool,
            static_cast<unsigned long long>(seed - 1));
        return 1;
    }
    return 0;
}
