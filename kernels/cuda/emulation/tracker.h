// Finds races on shared memory: two threads at one 4-byte word, at least one of them writing, with no
// barrier between. Exact for a schedule that has run, whether or not the bits came out wrong in it.
//
// Time is a counter that steps at barriers only. An access is ordered before another thread's when a
// block barrier came after it, or, within a warp, a warp barrier.
#pragma once
#include <cstdint>
#include <vector>

namespace emulation {

class Tracker {
public:
    static constexpr unsigned word_bytes = 4;
    static constexpr unsigned warp_threads = 32;
    static constexpr unsigned max_warps = 32;

    explicit Tracker(unsigned bytes) : words_(bytes / word_bytes) {}

    /// A new block: whatever happened before is ordered before it.
    void begin() {
        if (clock_ > latest_start) {
            words_.assign(words_.size(), Word{});
            clock_ = 0;
        }
        start_ = block_time_ = ++clock_;
        for (auto& time : warp_times_) time = clock_;
    }

    void block_barrier() { block_time_ = ++clock_; }
    void warp_barrier(unsigned warp) { warp_times_[warp] = ++clock_; }

    // Each of these gives the fault, or null. Addresses and sizes are multiples of 4.

    const char* read(unsigned address, unsigned bytes, unsigned thread) {
        const auto warp = static_cast<std::uint8_t>(thread / warp_threads);
        for (Word* w = at(address); w != at(address + bytes); ++w) {
            if (w->copy_time >= start_) return "read while an asynchronous copy to it is under way";
            if (!ordered(w->write_time, w->writer, thread)) return "read without a barrier after another thread's write";
            const bool alone = w->read_time < block_time_;
            w->reader = alone || w->reader == thread ? static_cast<std::uint16_t>(thread) : several_threads;
            w->reader_warp = alone || w->reader_warp == warp ? warp : several_warps;
            w->read_time = clock_;
        }
        return nullptr;
    }

    const char* write(unsigned address, unsigned bytes, unsigned thread) {
        if (const char* wrong = may_write(address, bytes, thread)) return wrong;
        for (Word* w = at(address); w != at(address + bytes); ++w) note_write(*w, thread);
        return nullptr;
    }

    /// An asynchronous copy is issued: from now until it lands no thread may touch the words.
    const char* copy_issued(unsigned address, unsigned bytes, unsigned thread) {
        if (const char* wrong = may_write(address, bytes, thread)) return wrong;
        for (Word* w = at(address); w != at(address + bytes); ++w) w->copy_time = clock_;
        return nullptr;
    }

    void copy_landed(unsigned address, unsigned bytes, unsigned thread) {
        for (Word* w = at(address); w != at(address + bytes); ++w) {
            w->copy_time = 0;
            note_write(*w, thread);
        }
    }

private:
    static constexpr std::uint16_t several_threads = 0xFFFF;
    static constexpr std::uint8_t several_warps = 0xFF;
    static constexpr std::uint32_t latest_start = 1u << 31;

    struct Word {
        std::uint32_t write_time = 0, read_time = 0, copy_time = 0;
        std::uint16_t writer = 0, reader = 0;
        std::uint8_t reader_warp = 0;
    };

    Word* at(unsigned address) { return words_.data() + address / word_bytes; }

    bool ordered(std::uint32_t time, unsigned by, unsigned before) const {
        if (by == before || time < block_time_) return true;
        return by / warp_threads == before / warp_threads && time < warp_times_[before / warp_threads];
    }

    const char* may_write(unsigned address, unsigned bytes, unsigned thread) {
        const unsigned warp = thread / warp_threads;
        for (Word* w = at(address); w != at(address + bytes); ++w) {
            if (w->copy_time >= start_) return "written while an asynchronous copy to it is under way";
            if (!ordered(w->write_time, w->writer, thread)) return "written without a barrier after another thread's write";
            if (w->read_time < block_time_) continue;
            const bool own = w->reader == thread;
            const bool own_warp = w->reader_warp == warp && w->read_time < warp_times_[warp];
            if (!own && !own_warp) return "written without a barrier after another thread's read";
        }
        return nullptr;
    }

    void note_write(Word& word, unsigned thread) const {
        word.write_time = clock_;
        word.writer = static_cast<std::uint16_t>(thread);
    }

    std::vector<Word> words_;
    std::uint32_t clock_ = 0, start_ = 0, block_time_ = 0;
    std::uint32_t warp_times_[max_warps] = {};
};

}  // namespace emulation
