#include "device.h"

#include <algorithm>
#include <cstring>

#include "dut.h"

static const int64_t WORD = 64;

bool Link::ready(int64_t t) const {
    if (ps_per_byte <= 0) return true;
    return static_cast<double>(t) >= ready_at();
}

// When a word has room in the store.
double Link::ready_at() const { return busy_until - static_cast<double>(store_bytes - WORD) * ps_per_byte; }

void Link::take(int64_t t, int64_t bytes, bool last) {
    if (ps_per_byte <= 0) return;
    double more = static_cast<double>(bytes + (last ? overhead_bytes : 0)) * ps_per_byte;
    busy_until = std::max(busy_until, static_cast<double>(t)) + more;
}

const char *Device::name() { return Dut::name; }

Device::Device(int64_t clock) : clock_ps(clock), dut(new Dut) {
    for (int i = 0; i < dut->ins; i++) *dut->in[i].valid = 0;
    for (int i = 0; i < dut->outs; i++) *dut->out[i].ready = 0;
    dut->configure(false, 0, 0);
    dut->reset(true);
    for (int i = 0; i < 4; i++) dut->half(i & 1);
    dut->reset(false);
    // Memories clear themselves before time begins.
    do {
        dut->half(false);
        dut->half(true);
    } while (dut->busy());
}

Device::~Device() = default;

void Device::configure(unsigned address, uint64_t value) {
    dut->configure(true, address, value);
    dut->half(false);
    dut->half(true);
    dut->configure(false, 0, 0);
}

void Device::arrive(int64_t t, unsigned port, const uint8_t *bytes, size_t len) {
    Input &input = inputs[port == server_port && dut->ins > 1];
    frames_in++;
    if (input.waiting.size() >= room || len == 0) {
        overrun++;
        return;
    }
    input.waiting.push_back({t, port, {bytes, bytes + len}});
}

bool Device::idle() const { return !dut->busy(); }

// Sets the inputs as they are at the edge at `t`.
void Device::drive(int64_t t) {
    for (int i = 0; i < dut->ins; i++) {
        const StreamIn &port = dut->in[i];
        const Input &input = inputs[i];
        *port.valid = !input.waiting.empty() && input.waiting.front().t <= t;
        if (!*port.valid) continue;
        const Frame &frame = input.waiting.front();
        size_t here = std::min<size_t>(WORD, frame.bytes.size() - input.offset);
        std::memset(port.data, 0, WORD);
        std::memcpy(port.data, frame.bytes.data() + input.offset, here);
        *port.keep = here == WORD ? ~0ull : (1ull << here) - 1;
        *port.last = input.offset + here == frame.bytes.size();
        *port.user = static_cast<uint8_t>(frame.ports);
    }
    for (int i = 0; i < dut->outs; i++) {
        *dut->out[i].ready = links[i].ready(t);
        if (dut->out[i].start) *dut->out[i].start = links[i].ready(t);
    }
    dut->time(t / 1000);
}

void Device::report(int64_t t) {
    unsigned kind, worker, count;
    if (dut->decided(kind, worker)) watch({t, kind, worker, 1});
    if (dut->departed(worker, count)) watch({t, DEPARTED, worker, count});
}

// Nothing happens at the next edge, whose inputs are set, and at further ones until a frame arrives or the link is ready.
bool Device::rests() const {
    for (int i = 0; i < dut->ins; i++)
        if (*dut->in[i].valid) return false;
    return dut->ins > 1 && dut->still() && !*dut->out[0].ready;
}

// One edge of the clock; true if a frame left at it.
bool Device::edge(std::vector<Frame> &out) {
    int64_t t = cycle * clock_ps;
    bool left = false;
    for (int i = 0; i < dut->ins; i++) {
        const StreamIn &port = dut->in[i];
        Input &input = inputs[i];
        if (!*port.valid || !*port.ready) continue;
        input.offset += WORD;
        if (!*port.last) continue;
        input.waiting.pop_front();
        input.offset = 0;
    }
    for (int i = 0; i < dut->outs; i++) {
        const StreamOut &port = dut->out[i];
        if (!*port.valid || !*port.ready) continue;
        int64_t here = __builtin_popcountll(*port.keep);
        const auto *data = reinterpret_cast<const uint8_t *>(port.data);
        Frame &frame = leaving[i];
        frame.bytes.insert(frame.bytes.end(), data, data + here);
        links[i].take(t, here, *port.last);
        if (!*port.last) continue;
        frames_out += static_cast<uint64_t>(__builtin_popcount(*port.user));
        out.push_back({t, *port.user, std::move(frame.bytes)});
        frame.bytes.clear();
        left = true;
    }
    dut->half(true);
    if (watch) report(t);
    cycle++;
    cycles++;
    return left;
}

int64_t Device::next() const {
    int64_t t = INT64_MAX;
    if (!idle()) t = std::max(cycle * clock_ps, waits_until);
    for (const Input &input : inputs)
        if (!input.waiting.empty()) t = std::min(t, std::max(cycle * clock_ps, input.waiting.front().t));
    return t == INT64_MAX ? -1 : t;
}

int64_t Device::advance(int64_t until, std::vector<Frame> &out) {
    for (;;) {
        int64_t due = next();
        if (due < 0 || due > until) return until;
        // Nothing changes at edges without input while the device is idle.
        cycle = std::max(cycle, (due + clock_ps - 1) / clock_ps);
        int64_t t = cycle * clock_ps;
        if (t > until) return until;
        drive(t);
        dut->half(false);
        waits_until = 0;
        if (rests()) {
            waits_until = static_cast<int64_t>(links[0].ready_at()) + 1;
            continue;
        }
        if (edge(out)) return t;
    }
}

std::string Device::counters() const {
    std::string text = "{\"frames_in\":" + std::to_string(frames_in) + ",\"frames_out\":" + std::to_string(frames_out) +
                       ",\"overrun\":" + std::to_string(overrun) + ",\"cycles\":" + std::to_string(cycles);
    for (int i = 0; Dut::counter_names[i]; i++)
        text += std::string(",\"") + Dut::counter_names[i] + "\":" + std::to_string(dut->counter(i));
    return text + "}";
}
