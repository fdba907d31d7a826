#include "Vswitchml.h"
#include "dut.h"

struct Dut::Model : Vswitchml {};

const char *Dut::name = "switchml-rtl";
static const char *const names[] = {"packets", "results", "duplicates_answered", "duplicates_dropped", "malformed",
    "unknown_source", "wrong_count", "table_full", "words", nullptr};
const char *const *Dut::counter_names = names;

Dut::Dut() : ins(1), outs(1), model(new Model) {
    auto &m = *model;
    in[0] = {m.s_tdata.data(), &m.s_tkeep, &m.s_tlast, &m.s_tvalid, &m.s_tready, &m.s_tuser};
    out[0] = {m.m_tdata.data(), &m.m_tkeep, &m.m_tlast, &m.m_tvalid, &m.m_tready, &m.m_tuser, nullptr};
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
bool Dut::still() const { return false; }
void Dut::reset(bool on) { model->rst = on; }
void Dut::configure(bool valid, unsigned address, uint64_t value) {
    model->cfg_valid = valid;
    model->cfg_address = static_cast<uint8_t>(address);
    model->cfg_data = value & 0xffffffffffffull;
}
void Dut::time(int64_t) {}
bool Dut::decided(unsigned &, unsigned &) const { return false; }
bool Dut::departed(unsigned &, unsigned &) const { return false; }
uint64_t Dut::counter(int index) const {
    const uint32_t *words = model->counters.data() + 2 * index;
    return words[0] | static_cast<uint64_t>(words[1]) << 32;
}
