#include "Volaf.h"
#include "dut.h"

struct Dut::Model : Volaf {};

const char *Dut::name = "olaf-rtl";
static const char *const names[] = {"updates", "appended", "merged", "subsumed", "outranked", "queue_full", "reward_low", "malformed",
    "bypassed", "departed", "acks", "downlink", "no_route", "contended_cycles", "held_back_cycles", nullptr};
const char *const *Dut::counter_names = names;

Dut::Dut() : ins(2), outs(2), model(new Model) {
    auto &m = *model;
    in[0] = {m.s_tdata.data(), &m.s_tkeep, &m.s_tlast, &m.s_tvalid, &m.s_tready, &m.s_tuser};
    in[1] = {m.a_tdata.data(), &m.a_tkeep, &m.a_tlast, &m.a_tvalid, &m.a_tready, &m.a_tuser};
    out[0] = {m.m_tdata.data(), &m.m_tkeep, &m.m_tlast, &m.m_tvalid, &m.m_tready, &m.m_tuser, &m.m_start};
    out[1] = {m.b_tdata.data(), &m.b_tkeep, &m.b_tlast, &m.b_tvalid, &m.b_tready, &m.b_tuser, nullptr};
    m.m_start = 1;
}
Dut::~Dut() {
    model->final();
    delete model;
}
void Dut::half(bool high) {
    model->clk = high;
    model->eval();
}
void Dut::evaluate() { model->eval(); }
bool Dut::busy() const { return model->busy; }
bool Dut::still() const { return model->still; }
void Dut::reset(bool on) { model->rst = on; }
void Dut::configure(bool valid, unsigned address, uint64_t value) {
    model->cfg_valid = valid;
    model->cfg_address = static_cast<uint16_t>(address);
    model->cfg_data = value & 0xffffffffffffull;
}
void Dut::time(int64_t ns) { model->now_ns = static_cast<uint64_t>(ns); }
bool Dut::decided(unsigned &kind, unsigned &worker) const {
    kind = model->event_kind;
    worker = model->event_worker;
    return kind != 0;
}
bool Dut::departed(unsigned &worker, unsigned &count) const {
    worker = model->departed_worker;
    count = model->departed_count;
    return model->departed;
}
uint64_t Dut::counter(int index) const {
    const uint32_t *words = model->counters.data() + 2 * index;
    return words[0] | static_cast<uint64_t>(words[1]) << 32;
}
