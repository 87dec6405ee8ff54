#include "stages/artifact/loader.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <utility>

#include <torch/cuda.h>
#include <torch/types.h>

#include "stages/machine/cpu_pool.h"

namespace stages {
namespace {

/// A batch under construction. Every sample is written directly to its row.
struct Assembly {
  std::size_t number = 0;
  std::vector<std::int64_t> indices;  // dataset indices, by row
  NamedTensors tensors;
  std::vector<char> present;  // by row; 0: skipped
  // The next row that this rank reads, the end of its rows, and the number of unfinished ones.
  std::size_t taken = 0, end = 0, unfinished = 0;
  std::exception_ptr error;  // the error of the first row that failed
  std::size_t error_row = 0;

  bool complete() const { return unfinished == 0; }
};

char* row_of(const at::Tensor& tensor, std::size_t row) {
  const auto bytes = tensor.nbytes() / static_cast<std::size_t>(tensor.size(0));
  return static_cast<char*>(tensor.data_ptr()) + bytes * row;
}

void write_row(Assembly& assembly, std::size_t row, const NamedTensors& sample) {
  for (const auto& [name, tensor] : assembly.tensors) {
    const at::Tensor part = sample.at(name).contiguous();
    if (part.sizes() != tensor.sizes().slice(1) || part.scalar_type() != tensor.scalar_type() ||
        !part.is_cpu()) {
      throw std::logic_error("a sample's '" + name + "' does not match the dataset's description");
    }
    std::memcpy(row_of(tensor, row), part.data_ptr(), part.nbytes());
  }
}

}  // namespace

struct Loader::State {
  ~State() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    work.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  std::shared_ptr<const Dataset> dataset;
  SampleOrder order = sequential_order(0);
  std::size_t batch_size = 1;
  std::int64_t epoch = 0;
  PartialReading partial;
  std::size_t batches = 0;
  LoaderOptions options;
  std::vector<TensorSpec> specs;

  std::mutex mutex;
  std::condition_variable work, done;           // a row can be read; a batch is complete
  std::deque<std::unique_ptr<Assembly>> ahead;  // in order; the front batch is returned next
  std::size_t begun = 0;     // all batches before this one have been started or skipped
  std::size_t position = 0;  // number of batches returned or left out by next()
  bool stopping = false;
  std::int64_t skipped = 0;
  std::vector<std::thread> threads;

  std::size_t samples() const { return static_cast<std::size_t>(order.size()); }

  std::unique_ptr<Assembly> begin(std::size_t number) const {
    auto assembly = std::make_unique<Assembly>();
    assembly->number = number;
    const std::size_t first = number * batch_size, last = std::min(first + batch_size, samples());
    assembly->indices.reserve(last - first);
    for (std::size_t place = first; place < last; ++place) {
      assembly->indices.push_back(order[static_cast<std::int64_t>(place)]);
    }
    assembly->present.assign(last - first, 0);
    const auto rows = static_cast<std::int64_t>(last - first);
    const RowRange own = partial.own ? partial.own(rows) : RowRange{0, rows};
    assembly->taken = static_cast<std::size_t>(own.begin);
    assembly->end = static_cast<std::size_t>(own.end);
    assembly->unfinished = assembly->end - assembly->taken;
    const bool pinned = options.pinned && torch::cuda::is_available();
    for (const TensorSpec& spec : specs) {
      std::vector<std::int64_t> shape = {rows};
      shape.insert(shape.end(), spec.shape.begin(), spec.shape.end());
      at::Tensor tensor =
          torch::empty(shape, torch::TensorOptions(spec.dtype).pinned_memory(pinned));
      if (partial.own) tensor.zero_();
      assembly->tensors.set(spec.name, std::move(tensor));
    }
    return assembly;
  }

  /// Reads one sample into its row, and returns the error if that fails. Safe to call for different
  /// rows at the same time.
  std::exception_ptr read(Assembly& assembly, std::size_t row) const {
    try {
      const std::optional<NamedTensors> sample = dataset->sample(epoch, assembly.indices[row]);
      if (sample) write_row(assembly, row, *sample);
      assembly.present[row] = sample ? 1 : 0;
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  void work_until_stopped() {
    const ScopedLaneBeside beside;  // these threads allocate at arbitrary times
    std::unique_lock lock(mutex);
    while (true) {
      Assembly* assembly = nullptr;
      work.wait(lock, [&] { return stopping || (assembly = unread()); });
      if (stopping) return;
      const std::size_t row = assembly->taken++;
      lock.unlock();
      const std::exception_ptr error = read(*assembly, row);
      lock.lock();
      if (error && (!assembly->error || row < assembly->error_row)) {
        assembly->error = error;
        assembly->error_row = row;
      }
      --assembly->unfinished;
      if (assembly->complete()) done.notify_one();
    }
  }

  /// Returns the first started batch with unread rows; null if there is none.
  Assembly* unread() {
    const auto found = std::ranges::find_if(ahead, [](const auto& a) { return a->taken < a->end; });
    return found == ahead.end() ? nullptr : found->get();
  }

  /// Starts as many batches as may be read ahead. The caller must have locked `mutex`.
  void fill() {
    while (begun < batches &&
           ahead.size() < static_cast<std::size_t>(std::max<std::int64_t>(options.prefetch, 1))) {
      ahead.push_back(begin(begun++));
    }
    work.notify_all();
  }

  std::unique_ptr<Assembly> next_assembly() {
    if (threads.empty()) {
      if (begun == batches) return nullptr;
      auto assembly = begin(begun++);
      for (; assembly->taken < assembly->end && !assembly->error; ++assembly->taken)
        assembly->error = read(*assembly, assembly->taken);
      return assembly;
    }
    std::unique_lock lock(mutex);
    if (ahead.empty()) return nullptr;
    done.wait(lock, [&] { return ahead.front()->complete(); });
    auto assembly = std::move(ahead.front());
    ahead.pop_front();
    fill();
    return assembly;
  }
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, SampleOrder order, std::int64_t batch_size,
               std::int64_t epoch, bool drop_last, std::int64_t first_batch, PartialReading partial)
    : state_(std::make_unique<State>()) {
  if (batch_size <= 0) throw std::invalid_argument("loader: the batch size must be positive");
  State& state = *state_;
  state.options = dataset->loader();
  state.specs = dataset->describe().tensors;
  state.dataset = std::move(dataset);
  state.order = std::move(order);
  state.batch_size = static_cast<std::size_t>(batch_size);
  state.epoch = epoch;
  state.partial = std::move(partial);
  state.batches = (state.samples() + (drop_last ? 0 : state.batch_size - 1)) / state.batch_size;
  if (first_batch < 0 || first_batch > batches())
    throw std::invalid_argument("loader: the first batch is out of range");
  state.begun = state.position = static_cast<std::size_t>(first_batch);
  if (state.options.workers == 0) return;
  state.fill();
  for (std::int64_t i = 0; i < state.options.workers; ++i) {
    state.threads.emplace_back([&state] { state.work_until_stopped(); });
  }
}

Loader::~Loader() = default;

std::optional<Batch> Loader::next() {
  while (const auto assembly = state_->next_assembly()) {
    if (assembly->error) std::rethrow_exception(assembly->error);
    if (state_->partial.complete) {
      state_->partial.complete(
          assembly->tensors,
          torch::from_blob(assembly->present.data(), {std::ssize(assembly->present)}, at::kByte));
    }
    state_->position = assembly->number + 1;
    // Remove the gaps left by skipped rows.
    std::vector<std::int64_t> indices;
    for (std::size_t row = 0; row < assembly->indices.size(); ++row) {
      if (!assembly->present[row]) continue;
      const std::size_t to = indices.size();
      indices.push_back(assembly->indices[row]);
      if (to == row) continue;
      for (const auto& [name, tensor] : assembly->tensors) {
        std::memcpy(row_of(tensor, to), row_of(tensor, row),
                    tensor.nbytes() / assembly->indices.size());
      }
    }
    state_->skipped += static_cast<std::int64_t>(assembly->indices.size() - indices.size());
    if (indices.empty()) continue;
    const auto units = static_cast<std::int64_t>(indices.size());
    NamedTensors tensors;
    for (const auto& [name, tensor] : assembly->tensors)
      tensors.set(name, tensor.narrow(0, 0, units));
    Batch batch(std::move(tensors), units);
    batch.indices = std::move(indices);
    return batch;
  }
  return std::nullopt;
}

std::int64_t Loader::batches() const { return static_cast<std::int64_t>(state_->batches); }

std::int64_t Loader::position() const { return static_cast<std::int64_t>(state_->position); }

std::int64_t Loader::skipped() const { return state_->skipped; }

runner::Progress PassProgress::after(std::int64_t step, std::int64_t samples) const {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
  runner::Progress progress;
  progress.phase = phase_;
  progress.step = step;
  progress.steps = steps_;
  if (passed.count() > 0)
    progress.samples_per_second = static_cast<double>(samples) / passed.count();
  progress.seconds_left =
      passed.count() / static_cast<double>(step) * static_cast<double>(steps_ - step);
  return progress;
}

}  // namespace stages
