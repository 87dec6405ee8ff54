#include "stages/plan/summarize.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <c10/core/ScalarType.h>

#include "stages/machine/block_pool.h"
#include "stages/machine/counting_allocator.h"
#include "stages/plan/allocator_replay.h"

namespace stages {
namespace {

constexpr std::size_t kLargest = 10;
constexpr std::size_t kPoints = 512;

/// Fractions of the planned bytes.
constexpr double kShare = 0.005, kShareOfHalves = 0.01;
/// Plus the largest small block: small tensors may be placed differently than in the plan.
constexpr std::int64_t kMisplaced = BlockPool::kSmall;

/// "float32": torch's Python name.
std::string type_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kLong:
      return "int64";
    case at::kInt:
      return "int32";
    case at::kByte:
      return "uint8";
    case at::kBool:
      return "bool";
    default:
      return c10::toString(type);
  }
}

/// What was alive, and how much, after each event.
class History {
 public:
  /// From event `first` of the trace on, with or without what kernels may take for themselves.
  History(const MemoryTrace& trace, std::size_t first, bool has_scratch)
      : storages_(trace.storages()) {
    const std::vector<TraceEvent> events = trace.events();
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (i == first) first_ = events_.size();
      if (has_scratch || !storages_[events[i].storage].is_scratch) events_.push_back(events[i]);
    }
    if (first >= events.size()) first_ = events_.size();
    std::int64_t live = 0;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      live += (events_[i].is_birth ? 1 : -1) * storage(i).bytes;
      if (i + 1 == first_) before_ = live;
      if (i >= first_) live_.push_back(live);
    }
    const auto most = std::ranges::max_element(live_);
    if (most != live_.end() && *most > before_)
      peak_ = static_cast<std::size_t>(most - live_.begin());
  }

  /// Bytes at the peak, which may lie before the first event.
  std::int64_t peak_bytes() const { return peak_ ? live_[*peak_] : before_; }
  /// The event that reaches the peak; nullopt: what was there before is never exceeded.
  std::optional<std::size_t> peak_event() const {
    return peak_ ? std::optional(first_ + *peak_) : std::nullopt;
  }
  const std::vector<TraceEvent>& events() const { return events_; }
  const TracedStorage& storage(std::size_t event) const {
    return storages_[events_[event].storage];
  }
  std::size_t first() const { return first_; }
  const std::vector<std::int64_t>& live() const { return live_; }

  std::vector<const TracedStorage*> alive_at_peak() const {
    const std::size_t end = peak_ ? first_ + *peak_ + 1 : first_;
    std::vector<bool> is_alive(storages_.size());
    for (std::size_t i = 0; i < end; ++i) is_alive[events_[i].storage] = events_[i].is_birth;
    std::vector<const TracedStorage*> result;
    for (std::size_t i = 0; i < storages_.size(); ++i) {
      if (is_alive[i]) result.push_back(&storages_[i]);
    }
    return result;
  }

  /// Operations of the events from the first on.
  double flops(double all) const { return all - (first_ == 0 ? 0 : events_[first_ - 1].flops); }

 private:
  const std::vector<TracedStorage> storages_;
  std::vector<TraceEvent> events_;
  std::size_t first_ = 0;
  std::int64_t before_ = 0;
  std::vector<std::int64_t> live_;  // after each event from the first on
  std::optional<std::size_t> peak_;
};

std::vector<runner::NamedBytes> owners(const std::vector<const TracedStorage*>& alive) {
  std::map<Owner, std::int64_t> bytes;
  for (const TracedStorage* storage : alive) bytes[storage->owner] += storage->bytes;
  std::vector<runner::NamedBytes> result;
  for (const auto& [owner, sum] : bytes)
    result.push_back({.name = std::string(name(owner)), .bytes = sum});
  return result;
}

/// Its name on `device`: attention is traced by the CPU's kernel, whichever kernel a GPU uses.
std::string operation_on(at::DeviceType device, const std::string& operation) {
  if (device == at::kCPU ||
      !(operation.find("ForCpu") != operation.npos || operation.ends_with("_for_cpu")))
    return operation;
  return operation.ends_with("Backward0") ? "ScaledDotProductAttentionBackward0"
                                          : "aten::scaled_dot_product_attention";
}

std::vector<runner::AliveTensor> largest(std::vector<const TracedStorage*> alive,
                                         at::DeviceType device) {
  std::ranges::stable_sort(alive, [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  if (alive.size() > kLargest) alive.resize(kLargest);
  std::vector<runner::AliveTensor> result;
  for (const TracedStorage* storage : alive) {
    result.push_back({.owner = std::string(name(storage->owner)),
                      .name = storage->name,
                      .operation = operation_on(device, storage->operation),
                      .shape = storage->shape,
                      .dtype = storage->shape.empty() && storage->dtype == at::kByte
                                   ? ""
                                   : type_name(storage->dtype),
                      .bytes = storage->bytes});
  }
  return result;
}

/// Draws the curve, where each point is the maximum over the events that it covers, and marks where
/// phases begin.
void draw(const History& history, runner::MemoryPlan& plan) {
  const std::vector<std::int64_t>& live = history.live();
  const std::size_t points = std::min(kPoints, live.size());
  plan.curve.assign(points, 0);
  StepPhase before = StepPhase::kIdle;
  for (std::size_t i = 0; i < live.size(); ++i) {
    const std::size_t point = i * points / live.size();
    plan.curve[point] = std::max(plan.curve[point], live[i]);
    const StepPhase phase = history.events()[history.first() + i].phase;
    if (phase == before) continue;
    before = phase;
    if (phase == StepPhase::kIdle) continue;
    if (!plan.phases.empty() && plan.phases.back().point == point) plan.phases.pop_back();
    plan.phases.push_back({.phase = std::string(name(phase)), .point = point});
  }
}

/// What the CPU's pool holds for the trace at its peak, assuming that it gets all it asks for.
std::int64_t reserved_by_pool(const History& history) {
  BlockPool pool;
  std::unordered_map<std::size_t, std::int64_t> addresses;  // by storage
  for (std::size_t i = 0; i < history.events().size(); ++i) {
    const TraceEvent& event = history.events()[i];
    if (event.is_birth) {
      const auto address = pool.allocate(CountingAllocator::kHeadBytes + history.storage(i).bytes);
      if (address) addresses.emplace(event.storage, *address);
    } else if (const auto block = addresses.extract(event.storage)) {
      pool.free(block.mapped());
    }
  }
  return pool.peak_reserved();
}

/// The same for a GPU's caching allocator.
std::int64_t reserved_on_gpu(const History& history, const AllocatorSettings& settings) {
  AllocatorReplay replay(rules_of(settings));
  for (std::size_t i = 0; i < history.events().size(); ++i) {
    const TraceEvent& event = history.events()[i];
    if (event.is_birth) replay.allocate(event.storage, history.storage(i).bytes);
    else replay.free(event.storage);
  }
  return replay.peak_reserved();
}

/// A small share of the planned bytes: gaps depend on where tensors lie, and kernels that take less
/// than their bound may leave other gaps.
runner::NamedBytes margin_of(std::int64_t planned, const std::vector<TracedStorage>& storages) {
  const bool has_halves = std::ranges::any_of(
      storages, [](const auto& one) { return at::isReducedFloatingType(one.dtype); });
  const auto share = static_cast<std::int64_t>((has_halves ? kShareOfHalves : kShare) *
                                               static_cast<double>(planned));
  return {.name = std::string(kMarginTerm),
          .bytes = share + kMisplaced,
          .note = "for gaps between tensors that are not as planned"};
}

/// What a CPU's kernels may take for themselves, measured by how much more is reserved with it.
runner::NamedBytes kernel_scratch(const MemoryTrace& trace, std::size_t first_event,
                                  const runner::MemoryPlan& plan) {
  const std::int64_t with = reserved_by_pool(History(trace, first_event, /*has_scratch=*/true));
  return {.name = std::string(kKernelScratchTerm),
          .bytes = std::max<std::int64_t>(with - plan.reserved, 0),
          .note = "what kernels take for themselves on any processor at most, with " +
                  std::to_string(plan.threads) + (plan.threads == 1 ? " thread" : " threads")};
}

}  // namespace

runner::MemoryPlan summarize(const MemoryTrace& trace, std::size_t first_event,
                             const Backend& backend, const AllocatorSettings& settings) {
  const History history(trace, first_event, /*has_scratch=*/false);
  const std::vector<const TracedStorage*> alive = history.alive_at_peak();
  runner::MemoryPlan plan;
  plan.threads = backend.device == at::kCPU ? backend.threads : 0;
  plan.live = history.peak_bytes();
  if (const auto peak = history.peak_event()) {
    plan.peak_phase = name(history.events()[*peak].phase);
    plan.peak_operation = operation_on(backend.device, history.storage(*peak).operation);
  }
  plan.owners = owners(alive);
  plan.largest = largest(alive, backend.device);
  plan.flops = history.flops(trace.flops());
  draw(history, plan);

  plan.terms_version = backend_terms_version();
  const bool is_gpu = backend.device == at::kCUDA;
  plan.reserved = is_gpu ? reserved_on_gpu(history, settings) : reserved_by_pool(history);
  plan.predicted = plan.reserved;
  if (!is_gpu) {
    runner::NamedBytes scratch = kernel_scratch(trace, first_event, plan);
    plan.predicted += scratch.bytes;
    const runner::NamedBytes margin = margin_of(plan.predicted, trace.storages());
    plan.predicted += margin.bytes;
    plan.terms = {margin, std::move(scratch)};
  }
  for (runner::NamedBytes& term : backend_terms(backend)) {
    plan.predicted += term.bytes;
    plan.terms.push_back(std::move(term));
  }
  std::int64_t casts = 0;
  for (const TracedStorage* storage : alive) casts += storage->is_cast ? storage->bytes : 0;
  if (casts > 0) {
    plan.terms.push_back({.name = "cast_cache",
                          .bytes = casts,
                          .note = "in live: weights in half precision that autocast keeps"});
  }
  plan.terms.push_back(
      {.name = "allocator_rounding",
       .bytes = plan.reserved - plan.live,
       .note = is_gpu ? "in reserved: sizes rounded to 512 bytes, and unused parts of segments"
                      : "in reserved: the heads of blocks, whole pages, and gaps between blocks"});
  return plan;
}

namespace {

constexpr std::int64_t kKiB = 1024, kMebibyte = 1024 * kKiB;

/// A number for the GPUs whose name contains one of the words, or for all if there are no words.
/// The first match counts.
struct Term {
  std::string_view name;
  std::vector<std::string_view> words;
  std::int64_t bytes;
  const char* source;
};

const std::vector<Term>& cuda_terms() {
  static const std::vector<Term> terms = {
      {kContextTerm,
       {},
       400 * kMebibyte,
       "kernels loaded lazily; https://github.com/pytorch/pytorch/issues/109888 says around 400 "
       "MB, older reports 290 "
       "to 670"},
      {"cublas_workspace",
       {"h100", "h200", "h800", "h20", "gh200", "b100", "b200", "gb200", "b300", "gb300",
        "blackwell", "rtx 50"},
       32 * kMebibyte,
       "LibTorch takes 32 MiB a handle and stream on Hopper and Blackwell"},
      {"cublas_workspace",
       {},
       8320 * kKiB,
       "LibTorch takes :4096:2:16:8 a handle and stream before Hopper"},
      {"cublaslt_workspace", {}, 1 * kMebibyte, "LibTorch's default of CUBLASLT_WORKSPACE_SIZE"},
      {"cudnn_workspace", {}, 0, "not known: cuDNN takes what its choice of a convolution needs"},
  };
  return terms;
}

bool fits(const Term& term, const std::string& model) {
  const auto is_in = [&](std::string_view word) { return model.find(word) != std::string::npos; };
  return term.words.empty() || std::ranges::any_of(term.words, is_in);
}

}  // namespace

std::string_view backend_terms_version() { return "terms-2, LibTorch 2.11"; }

std::vector<runner::NamedBytes> backend_terms(const Backend& backend) {
  std::vector<runner::NamedBytes> result;
  if (backend.device != at::kCUDA) return result;
  std::string model = backend.model;
  std::ranges::transform(model, model.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Term& term : cuda_terms()) {
    const auto is_same = [&](const runner::NamedBytes& taken) { return taken.name == term.name; };
    if (!fits(term, model) || std::ranges::any_of(result, is_same)) continue;
    result.push_back({.name = std::string(term.name), .bytes = term.bytes, .note = term.source});
  }
  return result;
}

}  // namespace stages
