#include "tests/support/stand_in/pinned_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include <torch/types.h>

#include "tests/support/stand_in/faults.h"

namespace stand_in {
namespace {

/// Returns a tensor on the memory of `host` that does not share its ownership.
at::Tensor borrowed(const at::Tensor& host) {
  return at::from_blob(host.data_ptr(), host.sizes(), host.strides(), host.options());
}

std::uint64_t digest_of(const at::Tensor& host) {
  const at::Tensor numbers = host.contiguous();
  const auto* byte = static_cast<const unsigned char*>(numbers.const_data_ptr());
  std::uint64_t digest = 14695981039346656037U;                        // FNV-1a
  for (std::size_t begin = 0; begin < numbers.nbytes(); begin += 8) {  // of words
    std::uint64_t word = 0;
    std::memcpy(&word, byte + begin, std::min<std::size_t>(8, numbers.nbytes() - begin));
    digest = (digest ^ word) * 1099511628211U;
  }
  return digest;
}

}  // namespace

PinnedMemory& pinned_memory() {
  static auto* const memory = new PinnedMemory;  // blocks outlive static objects
  return *memory;
}

c10::DataPtr PinnedMemory::allocate(std::size_t bytes) {
  if (bytes == 0) return {nullptr, nullptr, &free, at::kCPU};
  void* const begin = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  TORCH_CHECK(begin, "the stand-in has no pinned memory");
  const std::lock_guard guard(lock());
  blocks_[static_cast<char*>(begin)] = {bytes, false, {}};
  return {begin, begin, &free, at::kCPU};
}

c10::DeleterFnPtr PinnedMemory::raw_deleter() const { return &free; }

void PinnedMemory::copy_data(void* to, const void* from, std::size_t bytes) const {
  default_copy_data(to, from, bytes);
}

void PinnedMemory::free(void* begin) {
  if (!begin) return;
  const std::lock_guard guard(lock());
  auto& blocks = pinned_memory().blocks_;
  const auto block = blocks.find(static_cast<char*>(begin));
  block->second.is_freed = true;
  if (!block->second.copies.empty()) return;
  blocks.erase(block);
  std::free(begin);
}

std::map<char*, PinnedMemory::Block>::iterator PinnedMemory::block_of(const void* address) {
  auto* const at = static_cast<char*>(const_cast<void*>(address));
  auto after = blocks_.upper_bound(at);
  if (after == blocks_.begin()) return blocks_.end();
  const auto block = std::prev(after);
  return at < block->first + block->second.bytes ? block : blocks_.end();
}

bool PinnedMemory::contains(const void* address) const {
  const std::lock_guard guard(lock());
  auto& own = const_cast<PinnedMemory&>(*this);
  return own.block_of(address) != own.blocks_.end();
}

void PinnedMemory::copied_from(const at::Tensor& host, const Work& work) {
  const std::lock_guard guard(lock());
  finish_earlier(block_of(host.data_ptr())->second, work, /*is_to_host=*/true);
  add(host, {work, false, [host = borrowed(host), digest = digest_of(host)] {
               if (digest_of(host) != digest)
                 report("the host changed pinned memory before a copy from it was finished");
             }});
}

void PinnedMemory::copied_to(const at::Tensor& host, at::Tensor numbers, const Work& work) {
  const std::lock_guard guard(lock());
  Block& block = block_of(host.data_ptr())->second;
  finish_earlier(block, work, /*is_to_host=*/true);
  finish_earlier(block, work, /*is_to_host=*/false);
  if (host.is_non_overlapping_and_dense())
    std::memset(host.data_ptr(), 0xFF, host.nbytes());  // NaN, or -1
  add(host,
      {work, true, [host = borrowed(host), numbers = std::move(numbers)] { host.copy_(numbers); }});
}

void PinnedMemory::finish_earlier(Block& block, const Work& work, bool is_to_host) {
  const auto copies = block.copies;
  for (const auto& copy : copies) {
    if (copy->is_to_host != is_to_host || !copy->finish) continue;
    if (!streams().is_before(copy->work, work.stream))
      report("a stream uses pinned memory without waiting for another stream's copy");
    std::exchange(copy->finish, {})();
  }
}

void PinnedMemory::add(const at::Tensor& host, Copy copy) {
  const auto block = block_of(host.data_ptr());
  const auto shared = std::make_shared<Copy>(std::move(copy));
  block->second.copies.push_back(shared);
  streams().when_finished(shared->work,
                          [this, shared, begin = block->first] { finish(shared, begin); });
}

void PinnedMemory::finish(const std::shared_ptr<Copy>& copy, char* begin) {
  if (copy->finish) std::exchange(copy->finish, {})();
  Block& block = blocks_.at(begin);
  block.copies.remove(copy);
  if (block.is_freed && block.copies.empty()) free(begin);
}

}  // namespace stand_in
