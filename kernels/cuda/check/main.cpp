// Runs the kernels' own source on the processor, in several schedules, against the naive references:
//
//   check [--kernel NAME] [--schedule forward|reverse|shuffled] [--seed N] [--list]
//
// One line for each group of cases. Ends with 1 at the first that fails, naming it.
#include "check.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

namespace check {

namespace {

constexpr std::uint8_t guard = 0xA5;

std::vector<Group>& all() {
    static std::vector<Group> groups;
    return groups;
}

}  // namespace

const std::vector<Group>& groups() { return all(); }

Registration::Registration(Group group) { all().push_back(std::move(group)); }

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) {
    const std::size_t total = (bytes + 2 * guard_bytes + 255) / 256 * 256;
    memory_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(256, total)));
    if (!memory_) throw std::bad_alloc();
    std::memset(memory_.get(), guard, total);
}

void Buffer::expect_guards(const char* name) const {
    for (std::size_t i = 0; i < guard_bytes; ++i) {
        if (memory_.get()[i] != guard) throw Failure{std::string("wrote before ") + name};
        if (data()[bytes_ + i] != guard) throw Failure{std::string("wrote behind ") + name};
    }
}

void Case::fill(const Buffer& buffer) {
    for (std::size_t i = 0; i < buffer.size(); i += 8) {
        const std::uint64_t word = random_.next();
        std::memcpy(buffer.data() + i, &word, std::min<std::size_t>(8, buffer.size() - i));
    }
}

reference::Words8 Case::random_words() {
    reference::Words8 words;
    for (auto& word : words) word = static_cast<std::uint32_t>(random_.next());
    return words;
}

emulation::LaunchResult Case::run_kernel(unsigned grid, void** arguments) {
    ++launches_;
    return kernel_.launch({grid, 1, 1}, {kernel_.threads, 1, 1}, kernel_.shared_bytes, arguments, settings_);
}

void Case::run(unsigned grid, void** arguments) {
    const auto result = run_kernel(grid, arguments);
    if (!result) throw Failure{what_ + ": " + result.message};
}

void Case::run_to_fail(emulation::Code code, unsigned grid, void** arguments) {
    const auto result = run_kernel(grid, arguments);
    if (result) throw Failure{what_ + ": the launch ended well, not with: " + emulation::name_of(code)};
    if (result.code != code) throw Failure{what_ + ": expected " + emulation::name_of(code) + ", got " + result.message};
}

void Case::expect(bool holds, const char* what) const {
    if (!holds) throw Failure{what_ + ": " + what};
}

void Case::expect_same(const std::uint8_t* got, const std::uint8_t* expected, std::size_t bytes, const char* what) const {
    for (std::size_t i = 0; i < bytes; ++i) {
        if (got[i] == expected[i]) continue;
        char text[160];
        std::snprintf(text, sizeof text, ": byte %zu of %s is %02x, not %02x", i, what, got[i], expected[i]);
        throw Failure{what_ + text};
    }
}

}  // namespace check

namespace {

struct Options {
    const char* kernel = nullptr;
    const char* schedule = nullptr;
    std::uint64_t seed = 1;
    bool list = false;
};

const std::pair<const char*, emulation::Order> schedules[] = {
    {"forward", emulation::Order::forward}, {"reverse", emulation::Order::reverse}, {"shuffled", emulation::Order::shuffled}};

bool parse(int count, char** arguments, Options& options) {
    for (int i = 1; i < count; ++i) {
        const std::string name = arguments[i];
        if (name == "--list") {
            options.list = true;
            continue;
        }
        if (i + 1 == count) return false;
        const char* value = arguments[++i];
        if (name == "--kernel") options.kernel = value;
        else if (name == "--schedule") options.schedule = value;
        else if (name == "--seed") options.seed = std::strtoull(value, nullptr, 0);
        else return false;
    }
    return true;
}

/// Runs one group in one schedule; false when it failed.
bool run(const check::Group& group, const char* name, emulation::Order order, std::uint64_t seed) {
    const auto* kernel = emulation::find(group.kernel);
    if (!kernel) {
        std::printf("FAILED  %s: no kernel of that name\n", group.kernel);
        return false;
    }
    emulation::Settings settings;
    settings.schedule = {order, seed};
    check::Case one(*kernel, settings, seed);
    const auto started = std::chrono::steady_clock::now();
    try {
        group.run(one);
    } catch (const check::Failure& failure) {
        std::printf("FAILED  %s, %s, %s, seed %llu: %s\n", group.kernel, group.title, name,
                    static_cast<unsigned long long>(seed), failure.message.c_str());
        return false;
    }
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - started);
    std::printf("ok  %-26s %-44s %-8s %3u launches %6lld ms\n", group.kernel, group.title, name, one.launches(),
                static_cast<long long>(ms.count()));
    std::fflush(stdout);
    return true;
}

bool selected(const char* wanted, const char* name) { return !wanted || std::strcmp(wanted, name) == 0; }

}  // namespace

int main(int count, char** arguments) {
    Options options;
    if (!parse(count, arguments, options)) {
        std::fprintf(stderr, "usage: check [--kernel NAME] [--schedule forward|reverse|shuffled] [--seed N] [--list]\n");
        return 2;
    }
    if (options.list) {
        for (const auto& kernel : emulation::kernels()) std::printf("%s\n", kernel.name);
        return 0;
    }
    unsigned ran = 0;
    for (const auto& group : check::groups()) {
        if (!selected(options.kernel, group.kernel)) continue;
        for (const auto& [name, order] : schedules) {
            if (!selected(options.schedule, name)) continue;
            if (!run(group, name, order, options.seed)) return 1;
            ++ran;
        }
    }
    if (ran == 0) {
        std::fprintf(stderr, "nothing of that name to check\n");
        return 2;
    }
    return 0;
}
