#include "tests/support/kernels_on_cpu/shadow.h"

#include <iterator>
#include <utility>

namespace kernels_on_cpu {
namespace {

std::uintptr_t number_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

/// True if neither a barrier nor the order of launches separates the two turns.
bool are_concurrent(const Turn& before, const Turn& now, MemoryKind kind) {
  if (before.launch != now.launch) return false;
  if (before.block != now.block) return kind == MemoryKind::kGlobal;
  return before.barriers == now.barriers && before.thread != now.thread;
}

/// Returns a turn that represents both: it is concurrent with everything that either is concurrent
/// with.
Turn joined(const Turn& before, const Turn& now, MemoryKind kind) {
  Turn both = now;
  if (are_concurrent(before, now, kind))
    (before.block == now.block ? both.thread : both.block) = Turn::kSeveral;
  return both;
}

std::string text_of(const Access& access, const Turn& now) {
  return "thread " + std::to_string(now.thread) + " of block " + std::to_string(now.block) +
         (access.is_write ? " writes " : " reads ") + std::to_string(access.size) + " bytes";
}

std::string race_with(const Turn& before, const Turn& now, bool was_write) {
  const auto numbered = [](const std::string& what, std::int64_t number) {
    return number == Turn::kSeveral ? "several " + what + 's' : what + ' ' + std::to_string(number);
  };
  const std::string other = before.block == now.block ? numbered("thread", before.thread)
                                                      : numbered("block", before.block);
  return ", which " + other + (was_write ? " wrote" : " read") +
         (before.block == now.block ? " without a barrier in between" : " in the same launch");
}

}  // namespace

void Shadow::add(MemoryRange range) {
  std::vector<Byte> bytes(range.size, Byte{{}, {}, range.is_written});
  const std::uintptr_t begin = number_of(range.begin);
  memory_.insert_or_assign(begin, Shadowed{std::move(range), std::move(bytes)});
}

void Shadow::remove(const void* begin) { memory_.erase(number_of(begin)); }

std::optional<std::string> Shadow::see(const Access& access, const Turn& now) {
  Shadowed* const memory = find(access);
  if (!memory) return text_of(access, now) + out_of_bounds(access);
  const MemoryRange& range = memory->range;
  const std::size_t first = number_of(access.address) - number_of(range.begin);
  const auto fault = [&](const std::string& what) {
    return text_of(access, now) + " at byte " + std::to_string(first) + " of " + range.name + what;
  };
  if (range.kind == MemoryKind::kConstant) {
    if (access.is_write) return fault(", which is constant");
    return {};
  }
  for (std::size_t i = first; i < first + access.size; ++i) {
    Byte& byte = memory->bytes[i];
    if (are_concurrent(byte.write, now, range.kind)) return fault(race_with(byte.write, now, true));
    if (access.is_write) {
      if (are_concurrent(byte.read, now, range.kind))
        return fault(race_with(byte.read, now, false));
      byte.write = now;
      byte.is_written = true;
      continue;
    }
    const bool is_of_block = byte.write.launch == now.launch && byte.write.block == now.block;
    if (range.kind == MemoryKind::kShared ? !is_of_block : !byte.is_written)
      return fault(", which nothing has written");
    byte.read = joined(byte.read, now, range.kind);
  }
  return {};
}

/// Returns the memory that contains the whole access; null if there is none.
Shadow::Shadowed* Shadow::find(const Access& access) {
  const std::uintptr_t address = number_of(access.address);
  const auto after = memory_.upper_bound(address);
  if (after == memory_.begin()) return nullptr;
  auto& [begin, memory] = *std::prev(after);
  return address - begin + access.size <= memory.range.size ? &memory : nullptr;
}

std::string Shadow::out_of_bounds(const Access& access) const {
  constexpr std::uintptr_t kNear = 4096;
  const std::uintptr_t address = number_of(access.address);
  const auto after = memory_.upper_bound(address);
  if (after != memory_.begin()) {
    const auto& [begin, memory] = *std::prev(after);
    if (address - begin < memory.range.size + kNear)
      return " at byte " + std::to_string(address - begin) + " of " + memory.range.name +
             ", which has " + std::to_string(memory.range.size);
  }
  if (after != memory_.end() && after->first - address < kNear)
    return ' ' + std::to_string(after->first - address) + " bytes before " +
           after->second.range.name;
  return " in no array";
}

// Never destroyed: the libraries of kernels remove their memory when the process ends.
Shadow& shadow() {
  static auto* const shadow = new Shadow;
  return *shadow;
}

}  // namespace kernels_on_cpu
