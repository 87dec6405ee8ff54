#include "tests/support/stand_in/graphs.h"

#include <cstring>
#include <mutex>
#include <utility>

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <torch/types.h>

#include "tests/support/stand_in/card_allocator.h"
#include "tests/support/stand_in/faults.h"
#include "tests/support/stand_in/streams.h"

namespace stand_in {
namespace {

Recording* current = nullptr;  // of all threads; guarded by lock()

void* for_kernels(c10::Device gpu, const void* data) {
  return card_allocator().addresses(gpu.index()).for_kernels(data);
}

/// A graph and its pool: the blocks of the stream that recorded it.
class RecordedGraph final : public stages::gpu::Graph {
 public:
  RecordedGraph(c10::Device gpu, const std::function<void()>& queue)
      : gpu_(gpu), recording_(streams().new_stream(gpu)), pool_(recording_.stream()) {
    const c10::StreamGuard on_own_stream(recording_.stream());
    show(&recording_);
    try {
      queue();
    } catch (...) {
      show(nullptr);
      recording_.undo();
      throw;
    }
    show(nullptr);
    recording_.undo();
  }

  void replay() override { recording_.run(gpu_); }

 private:
  /// Keeps the memory of a stream reserved while it lives.
  class Pool {
   public:
    explicit Pool(c10::Stream stream) : stream_(stream) { card_allocator().keep(stream_); }
    ~Pool() { card_allocator().let_go(stream_); }
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

   private:
    const c10::Stream stream_;
  };

  static void show(Recording* recording) {
    const std::lock_guard guard(lock());
    current = recording;
  }

  const c10::Device gpu_;
  Recording recording_;
  const Pool pool_;
};

}  // namespace

Recording* recording() {
  const std::lock_guard guard(lock());
  const bool is_own = current && streams().current(current->stream().device()) == current->stream();
  return is_own ? current : nullptr;
}

void refuse_while_recording(const char* what) {
  TORCH_CHECK(!recording(), "CUDA error: operation not permitted when stream is capturing (", what,
              ")");
}

bool Recording::is_in_pool(const void* data) const {
  return card_allocator().stream_of(data) == key_of(stream_);
}

void Recording::use(const void* data, std::size_t bytes, bool writes) {
  if (!data || bytes == 0) return;
  uses_[data] = uses_[data] || writes;
  // Also saves memory that is only read: batch normalization does not declare that it writes its
  // statistics.
  if (before_.contains(data) || is_in_pool(data)) return;
  const auto* const now = static_cast<const char*>(for_kernels(stream_.device(), data));
  before_[data].assign(now, now + bytes);
}

void Recording::undo() {
  for (const auto& [data, bytes] : std::exchange(before_, {}))
    std::memcpy(for_kernels(stream_.device(), data), bytes.data(), bytes.size());
}

void Recording::run(c10::Device gpu) const {
  const c10::DeviceGuard guard(gpu);
  const Work work = streams().launch(gpu, "graph");
  for (const auto& [data, writes] : uses_) {
    const std::lock_guard lock_of_all(lock());
    if (Uses* const uses = card_allocator().uses_of(data)) uses->add(work, writes);
    else if (!is_in_pool(data)) report("a graph uses memory that has been freed");
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  for (const std::function<void()>& kernel : kernels_) kernel();
}

}  // namespace stand_in

namespace stages::gpu {

std::unique_ptr<Graph> capture(c10::Device gpu, const std::function<void()>& queue) {
  return std::make_unique<stand_in::RecordedGraph>(gpu, queue);
}

}  // namespace stages::gpu
