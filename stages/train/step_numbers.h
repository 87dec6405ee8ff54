#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "stages/tensor/named_tensors.h"
#include "stages/train/means.h"

namespace c10 {
struct Event;
}

namespace stages {

/// What one batch measured: a row of sums for each micro-batch, on the device until the host asks.
///
/// Nothing here makes the host wait for a GPU but means() and what follows it; fetch() starts the copy, so that it has
/// long arrived when they are called a step later.
class StepNumbers {
 public:
  /// `weight` of the whole batch in the loss, and what its scores count among (TrainingStep::scored()).
  StepNumbers(double weight, std::int64_t scored);
  ~StepNumbers();
  StepNumbers(StepNumbers&&) noexcept;
  StepNumbers& operator=(StepNumbers&&) noexcept;

  /// The sums of one micro-batch, as TrainingStep::loss and TrainingStep::score give them, for add().
  at::Tensor row(const NamedTensors& terms, const NamedTensors& scores);
  /// The next micro-batch.
  void add(at::Tensor row);
  /// The norm of the whole gradient before clipping.
  void set_gradient_norm(const at::Tensor& norm);
  /// The scale of the loss, and 1 where the gradients overflowed under it, so that the step is skipped; else 0.
  void set_scaling(const at::Tensor& scale, const at::Tensor& overflow);

  /// Starts the copy to the host; called once, after the last add().
  void fetch();
  /// A float32 scalar on the device: 1 if the loss or the gradient is not finite, else 0. After fetch().
  at::Tensor broken() const;

  Means means() const { return means({this, 1}); }
  /// Over some batches, at least one, that the same step has measured. Their sums are added up before anything is
  /// divided: equal counts give equal shares, however the samples were divided among batches and parts.
  static Means means(std::span<const StepNumbers> batches);
  /// Absent too for a skipped step, whose gradient is none.
  std::optional<double> gradient_norm() const;
  std::optional<double> loss_scale() const;
  /// The gradients overflowed under the loss's scale.
  bool skipped() const;
  /// The first micro-batch whose loss is not finite.
  std::optional<std::int64_t> first_broken_part() const;

 private:
  void wait() const;
  /// Adds up the rows.
  void add_sums(std::vector<double>& sums) const;
  /// Number `index` of the host's, counted from the end for a negative one.
  double value(std::int64_t index) const;

  double weight_, scored_;
  std::vector<std::string> term_names_, score_names_;
  std::vector<at::Tensor> rows_;  // (terms + scores) float64 each
  at::Tensor norm_;               // (1) float64
  at::Tensor scaling_;            // (2) float64: scale, overflow
  at::Tensor device_values_;      // rows one after the other, then the norm, then the scaling
  at::Tensor host_values_;
  std::unique_ptr<c10::Event> copied_;  // null where there is nothing to wait for
};

}  // namespace stages
