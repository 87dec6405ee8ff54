#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "stages/machine/gpu.h"
#include "stages/random/dropout.h"
#include "stages/tensor/batch.h"
#include "stages/train/step_plan.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// The forward and the backward pass of a micro-batch as a CUDA graph. The first kWarmUp steps on
/// whole batches run as usual. The next one is recorded, and from then on all micro-batches like it
/// are replayed with one launch. A last batch that is smaller still runs as usual, with the same
/// result.
///
///   StepGraph graph(network, device);
///   StepGraph::Step step(graph, plan);          // one optimizer step
///   graph.begin(batch);
///   graph.run(part, weight, numbers, compute);  // for each part of the batch
///   graph.end();
///   step.end();
///
/// The gradients stay in the same memory for as long as the graph does. They are attached to the
/// parameters and cleared when a step begins. If the memory of a weight or a buffer has moved, or
/// if other weights are trained, the graph is recorded again. The graph has memory of its own,
/// which no other work can use. In a dry run, one tensor stands for it.
class StepGraph {
 public:
  static constexpr int kWarmUp = 2;
  /// The weight of a whole batch, by which its loss is divided.
  struct Weight {
    double on_host = 0;
    /// The same as a float64 scalar, if it depends on the numbers in the batch and not only on its
    /// size; otherwise undefined.
    at::Tensor on_device;
  };
  /// Computes a part: adds to the gradients and returns a row of StepNumbers.
  using Compute = std::function<at::Tensor(const Batch& part)>;

  /// `network`, on `device`, is borrowed. A GPU, or Meta for a dry run.
  StepGraph(torch::nn::Module& network, at::Device device);

  /// A step between its first micro-batch and the end of its computation. If it is destroyed before
  /// end(), the step has failed, and the graph and its memory are dropped.
  class [[nodiscard]] Step {
   public:
    /// `graph` is borrowed; if null, the step does nothing.
    Step(StepGraph* graph, const StepPlan& plan) : graph_(graph) {
      if (graph_) graph_->plan_ = plan;
    }
    ~Step() {
      if (graph_) graph_->forget();
    }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    void end() { graph_ = nullptr; }

   private:
    StepGraph* graph_;
  };

  /// Begins the micro-batches of `batch`, which is on the device: attaches the gradients.
  void begin(const Batch& batch);
  /// Replays `part` if it is like the recorded one, and otherwise calls `compute`. `weight` is that
  /// of the whole batch, and `compute` divides by the one on the device, if there is one. Dropout
  /// is in a scope for the rows of the part. Returns the row that `compute` returns.
  at::Tensor run(const Batch& part, const Weight& weight, StepNumbers& numbers,
                 const Compute& compute);
  /// Ends the micro-batches: keeps their gradients for the next step.
  void end();
  /// Drops the graph and its memory; the next steps warm up again.
  void forget();

  /// True once the warm-up is over.
  bool replays() const { return warmed_up_ >= kWarmUp; }
  /// Returns how many times a graph was recorded.
  std::int64_t recorded() const { return recorded_; }
  /// Returns, in a dry run, how many bytes the graph reserves for itself; 0 until the warm-up is
  /// over.
  std::int64_t pool_bytes() const { return pool_bytes_; }

 private:
  /// Where the tensors of the network are, and whether they are trained.
  using Places = std::vector<std::pair<const void*, bool>>;
  Places places() const;
  std::int64_t units_of_part() const;
  bool is_like_recorded(const Batch& part, const Weight& weight) const;
  Batch with_own_memory(const Batch& part);
  void load(const Batch& part, const Weight& weight);
  void record(StepNumbers& numbers, const Compute& compute);
  void begin_in_dry_run(const Batch& batch);

  torch::nn::Module& network_;
  const at::Device device_;
  StepPlan plan_;
  int warmed_up_ = 0;      // whole steps
  bool is_whole_ = false;  // the step's batch has the same size as most batches
  Places places_;
  std::vector<std::pair<at::Tensor, at::Tensor>> gradients_;  // parameters and their gradients
  // The recorded part:
  std::unique_ptr<gpu::Graph> graph_;
  std::optional<Batch> part_;            // what the graph reads
  std::optional<DropoutNames> dropout_;  // where it reads the names of the part's rows
  at::Tensor row_;                       // in the graph's memory
  Weight weight_;
  StepNumbers::Names names_;
  std::int64_t recorded_ = 0;
  // In a dry run:
  std::size_t first_event_ = 0;            // where the step's micro-batches begin
  std::vector<std::int64_t> input_bytes_;  // of a part
  std::int64_t width_ = 0;                 // of a row
  std::int64_t pool_bytes_ = 0;
  at::Tensor pool_;
};

/// Throws runner::StageError: a CPU has no CUDA graphs.
[[noreturn]] void refuse_cuda_graphs_on_cpu(const MemoryPolicy& policy);

/// Throws runner::StageError if a policy requests CUDA graphs that steps under `plan` cannot use.
/// The network is in training mode.
void check_cuda_graphs(const MemoryPolicy& policy, const StepPlan& plan, const TrainingStep& step,
                       const torch::nn::Module& network, int ranks);

}  // namespace stages
