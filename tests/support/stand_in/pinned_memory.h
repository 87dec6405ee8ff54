#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Tensor.h>

#include "tests/support/stand_in/streams.h"

namespace stand_in {

/// Host memory for copies that the host does not wait for (streams.h). A freed block lives until
/// the host has waited for the copies from and to it.
class PinnedMemory final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override;
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}

  bool contains(const void* address) const;

  /// Notes that `work` copies from `host`, a CPU tensor in this memory. Earlier copies to it have
  /// arrived by then.
  void copied_from(const at::Tensor& host, const Work& work);
  /// Copies `numbers`, a CPU tensor, to `host` once the host has waited for `work`.
  void copied_to(const at::Tensor& host, at::Tensor numbers, const Work& work);

 private:
  struct Copy {
    Work work;
    bool is_to_host = false;
    std::function<void()> finish;  // empty once it is done
  };
  struct Block {
    std::size_t bytes = 0;
    bool is_freed = false;
    std::list<std::shared_ptr<Copy>> copies;  // unfinished ones
  };
  static void free(void* begin);
  std::map<char*, Block>::iterator block_of(const void* address);
  void finish_earlier(Block& block, const Work& work, bool is_to_host);
  void add(const at::Tensor& host, Copy copy);
  void finish(const std::shared_ptr<Copy>& copy, char* begin);

  std::map<char*, Block> blocks_;
};

PinnedMemory& pinned_memory();

}  // namespace stand_in
