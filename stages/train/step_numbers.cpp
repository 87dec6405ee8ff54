#include "stages/train/step_numbers.h"

#include <cassert>
#include <cmath>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

namespace stages {

StepNumbers::StepNumbers(double weight, std::int64_t scored) : weight_(weight), scored_(static_cast<double>(scored)) {}
StepNumbers::~StepNumbers() = default;
StepNumbers::StepNumbers(StepNumbers&&) noexcept = default;
StepNumbers& StepNumbers::operator=(StepNumbers&&) noexcept = default;

at::Tensor StepNumbers::row(const NamedTensors& terms, const NamedTensors& scores) {
  std::vector<at::Tensor> row;
  term_names_.clear();
  score_names_.clear();
  for (const auto& [name, value] : terms) {
    term_names_.push_back(name);
    row.push_back(value.detach().to(torch::kDouble));
  }
  for (const auto& [name, value] : scores) {
    score_names_.push_back(name);
    row.push_back(value.detach().to(torch::kDouble));
  }
  return torch::stack(row);
}

void StepNumbers::add(at::Tensor row) { rows_.push_back(std::move(row)); }

void StepNumbers::set_gradient_norm(const at::Tensor& norm) { norm_ = norm.detach().to(torch::kDouble).reshape({1}); }

void StepNumbers::set_scaling(const at::Tensor& scale, const at::Tensor& overflow) {
  scaling_ = torch::stack({scale, overflow}).to(torch::kDouble);
}

void StepNumbers::fetch() {
  std::vector<at::Tensor> all = rows_;
  if (norm_.defined()) all.push_back(norm_);
  if (scaling_.defined()) all.push_back(scaling_);
  device_values_ = torch::cat(all);
  if (device_values_.is_cpu() || device_values_.is_meta()) {
    host_values_ = device_values_;
    return;
  }
  host_values_ = torch::empty(device_values_.sizes(), torch::TensorOptions(torch::kDouble).pinned_memory(true));
  host_values_.copy_(device_values_, /*non_blocking=*/true);
  const c10::impl::VirtualGuardImpl guard(device_values_.device().type());
  copied_ = std::make_unique<c10::Event>(device_values_.device().type());
  copied_->record(guard.getStream(device_values_.device()));
}

at::Tensor StepNumbers::broken() const {
  const at::Tensor broken = device_values_.isfinite().all().logical_not();
  return (scaling_.defined() ? broken.logical_or(scaling_[1] > 0) : broken).to(torch::kFloat);
}

void StepNumbers::wait() const {
  if (copied_) copied_->synchronize();
}

void StepNumbers::add_sums(std::vector<double>& sums) const {
  wait();
  const double* value = host_values_.const_data_ptr<double>();
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    for (double& sum : sums) sum += *value++;
  }
}

Means StepNumbers::means(std::span<const StepNumbers> batches) {
  const StepNumbers& first = batches.front();
  std::vector<double> sums(first.term_names_.size() + first.score_names_.size(), 0.0);
  Means means;
  for (const StepNumbers& batch : batches) {
    assert(batch.term_names_ == first.term_names_ && batch.score_names_ == first.score_names_);
    batch.add_sums(sums);
    means.weight += batch.weight_;
    means.units += batch.scored_;
  }
  auto sum = sums.begin();
  for (const std::string& name : first.term_names_) means.terms.emplace_back(name, *sum++ / means.weight);
  for (const std::string& name : first.score_names_) means.scores.emplace_back(name, *sum++ / means.units);
  for (const auto& [name, mean] : means.terms) means.loss += mean;
  return means;
}

double StepNumbers::value(std::int64_t index) const {
  wait();
  return host_values_.const_data_ptr<double>()[index < 0 ? host_values_.numel() + index : index];
}

std::optional<double> StepNumbers::gradient_norm() const {
  if (!norm_.defined() || skipped()) return {};
  return value(scaling_.defined() ? -3 : -1);
}

std::optional<double> StepNumbers::loss_scale() const {
  return scaling_.defined() ? std::optional(value(-2)) : std::nullopt;
}

bool StepNumbers::skipped() const { return scaling_.defined() && value(-1) > 0; }

std::optional<std::int64_t> StepNumbers::first_broken_part() const {
  wait();
  const double* row = host_values_.const_data_ptr<double>();
  const std::size_t width = term_names_.size() + score_names_.size();
  for (std::size_t part = 0; part < rows_.size(); ++part, row += width) {
    for (std::size_t term = 0; term < term_names_.size(); ++term) {
      if (!std::isfinite(row[term])) return static_cast<std::int64_t>(part);
    }
  }
  return {};
}

}  // namespace stages
