//! BPF instructions, emitted one by one.
//!
//! The transports need two programs of a few dozen instructions. Writing them here avoids a BPF compiler in the build.
//! Names follow the kernel's instruction set document; sizes of loads and stores are in their names.

/// A register: R0 is the result, R1 to R5 are arguments and do not survive a call, R6 to R9 do.
pub(crate) type Reg = u8;
/// Result of calls and of the program.
pub(crate) const R0: Reg = 0;
/// First argument; the context when the program starts.
pub const R1: Reg = 1;
/// Second argument.
pub const R2: Reg = 2;
/// Third argument.
pub(crate) const R3: Reg = 3;
/// Fourth argument.
pub(crate) const R4: Reg = 4;
/// Kept over calls.
pub(crate) const R6: Reg = 6;
/// Kept over calls.
pub(crate) const R7: Reg = 7;
/// Kept over calls.
pub(crate) const R8: Reg = 8;
/// Kept over calls.
pub(crate) const R9: Reg = 9;

/// `bpf_redirect_map(map, key, flags)`.
pub(crate) const REDIRECT_MAP: i32 = 51;
/// `bpf_xdp_adjust_tail(ctx, delta)`.
pub(crate) const XDP_ADJUST_TAIL: i32 = 65;
/// `bpf_xdp_get_buff_len(ctx)`: bytes of the frame in all its buffers.
pub(crate) const XDP_GET_BUFF_LEN: i32 = 188;
/// `bpf_xdp_store_bytes(ctx, offset, from, len)`.
pub(crate) const XDP_STORE_BYTES: i32 = 190;

/// Verdict: drop the frame.
pub(crate) const XDP_DROP: i32 = 1;
/// Verdict: pass the frame to the network stack.
pub(crate) const XDP_PASS: i32 = 2;
/// Verdict of a successful redirect.
pub(crate) const XDP_REDIRECT: i32 = 4;

/// Offsets in `struct xdp_md`: the first byte of the frame.
pub(crate) const CTX_DATA: i16 = 0;
/// End of the frame.
pub(crate) const CTX_DATA_END: i16 = 4;
/// The queue on which it arrived.
pub(crate) const CTX_RX_QUEUE: i16 = 16;

/// One instruction as the kernel reads it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Insn {
    code: u8,
    regs: u8,
    off: i16,
    imm: i32,
}

/// Condition of a jump, comparing a register with a constant, unsigned.
#[derive(Debug, Clone, Copy)]
pub enum When {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
    /// Less.
    Lt,
}

impl When {
    fn code(self) -> u8 {
        match self {
            When::Eq => 0x15,
            When::Gt => 0x25,
            When::Ge => 0x35,
            When::Ne => 0x55,
            When::Lt => 0xa5,
        }
    }
}

/// A target of jumps. Jumps go forward only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JumpLabel(usize);

/// A program being written.
#[derive(Debug, Default)]
pub struct Code {
    insns: Vec<Insn>,
    labels: usize,
    jumps: Vec<(usize, JumpLabel)>,
}

impl Code {
    /// An empty program.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the instructions. Every label must have been placed.
    pub(crate) fn insns(&self) -> &[Insn] {
        assert!(self.jumps.is_empty(), "a jump leads nowhere");
        &self.insns
    }

    fn push(&mut self, code: u8, dst: Reg, src: Reg, off: i16, imm: i32) {
        self.insns.push(Insn { code, regs: src << 4 | dst, off, imm });
    }

    /// `dst = imm`
    pub fn set(&mut self, dst: Reg, imm: i32) {
        self.push(0xb7, dst, 0, 0, imm);
    }

    /// `dst = src`
    pub fn copy(&mut self, dst: Reg, src: Reg) {
        self.push(0xbf, dst, src, 0, 0);
    }

    /// `dst += imm`
    pub fn add(&mut self, dst: Reg, imm: i32) {
        self.push(0x07, dst, 0, 0, imm);
    }

    /// `dst += src`
    pub(crate) fn add_reg(&mut self, dst: Reg, src: Reg) {
        self.push(0x0f, dst, src, 0, 0);
    }

    /// `dst -= src`
    pub(crate) fn sub_reg(&mut self, dst: Reg, src: Reg) {
        self.push(0x1f, dst, src, 0, 0);
    }

    /// `dst <<= bits`
    pub(crate) fn shift_left(&mut self, dst: Reg, bits: i32) {
        self.push(0x67, dst, 0, 0, bits);
    }

    /// `dst = *(u32 *)(src + off)`
    pub(crate) fn load_u32(&mut self, dst: Reg, src: Reg, off: i16) {
        self.push(0x61, dst, src, off, 0);
    }

    /// `dst = *(u64 *)(src + off)`
    pub(crate) fn load_u64(&mut self, dst: Reg, src: Reg, off: i16) {
        self.push(0x79, dst, src, off, 0);
    }

    /// `*(u64 *)(dst + off) = src`
    pub(crate) fn store_u64(&mut self, dst: Reg, off: i16, src: Reg) {
        self.push(0x7b, dst, src, off, 0);
    }

    /// Copies `len` bytes from `src` to `dst`, through `by`.
    pub(crate) fn copy_bytes(&mut self, dst: Reg, src: Reg, len: usize, by: Reg) {
        let mut at = 0;
        for (bytes, load, store) in [(8, 0x79, 0x7b), (4, 0x61, 0x63), (2, 0x69, 0x6b), (1, 0x71, 0x73)] {
            while at + bytes <= len {
                self.push(load, by, src, at as i16, 0);
                self.push(store, dst, by, at as i16, 0);
                at += bytes;
            }
        }
    }

    /// `dst =` the map with file descriptor `fd`
    pub(crate) fn load_map(&mut self, dst: Reg, fd: i32) {
        self.push(0x18, dst, 1, 0, fd);
        self.push(0, 0, 0, 0, 0);
    }

    /// `dst =` address of the first value of the array map with file descriptor `fd`
    pub(crate) fn load_value(&mut self, dst: Reg, fd: i32) {
        self.push(0x18, dst, 2, 0, fd);
        self.push(0, 0, 0, 0, 0);
    }

    /// Calls a helper.
    pub fn call(&mut self, helper: i32) {
        self.push(0x85, 0, 0, 0, helper);
    }

    /// Returns R0.
    pub fn exit(&mut self) {
        self.push(0x95, 0, 0, 0, 0);
    }

    /// Makes a label that is not placed yet.
    pub fn label(&mut self) -> JumpLabel {
        self.labels += 1;
        JumpLabel(self.labels)
    }

    /// Jumps to `to` if the comparison of `reg` with `imm` holds.
    pub fn jump(&mut self, when: When, reg: Reg, imm: i32, to: JumpLabel) {
        self.jumps.push((self.insns.len(), to));
        self.push(when.code(), reg, 0, 0, imm);
    }

    /// Jumps to `to` when `left >= right`.
    pub(crate) fn jump_ge_reg(&mut self, left: Reg, right: Reg, to: JumpLabel) {
        self.jumps.push((self.insns.len(), to));
        self.push(0x3d, left, right, 0, 0);
    }

    /// Places `label` here.
    pub fn place(&mut self, label: JumpLabel) {
        let here = self.insns.len();
        let insns = &mut self.insns;
        self.jumps.retain(|&(at, to)| {
            if to == label {
                insns[at].off = i16::try_from(here - at - 1).expect("programs are short");
            }
            to != label
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_as_the_instruction_set_says() {
        let mut code = Code::new();
        let end = code.label();
        code.copy(R6, R1);
        code.jump(When::Gt, R6, 7, end);
        code.load_u64(R0, R6, -8);
        code.place(end);
        code.exit();
        let insn = |code, regs, off, imm| Insn { code, regs, off, imm };
        assert_eq!(
            code.insns(),
            [insn(0xbf, 0x16, 0, 0), insn(0x25, 0x06, 1, 7), insn(0x79, 0x60, -8, 0), insn(0x95, 0, 0, 0)]
        );
    }

    #[test]
    #[should_panic(expected = "leads nowhere")]
    fn a_jump_without_a_place_is_refused() {
        let mut code = Code::new();
        let end = code.label();
        code.jump(When::Eq, R1, 0, end);
        code.insns();
    }
}
