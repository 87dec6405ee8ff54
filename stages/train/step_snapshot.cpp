#include "stages/train/step_snapshot.h"

#include <algorithm>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "stages/train/gradient.h"

namespace stages {
namespace {

/// Returns a buffer's elements in one dimension and in the same memory; undefined if that is
/// impossible.
at::Tensor row_of(const at::Tensor& buffer) {
  return buffer.is_contiguous() ? buffer.view(-1) : at::Tensor();
}

}  // namespace

StepSnapshot::StepSnapshot(torch::nn::Module& network, at::Device device)
    : network_(&network), device_(device), generators_(generator_states(device)) {
  const torch::NoGradGuard no_graph;
  std::vector<Values> values;
  for (const at::Tensor& buffer : network.buffers()) values.push_back({buffer, buffer.reshape(-1)});
  groups_ = grouped(values);
}

std::vector<StepSnapshot::Group> StepSnapshot::grouped(const std::vector<Values>& values) {
  std::vector<Group> groups;
  std::vector<std::vector<at::Tensor>> rows;  // of each group
  for (const Values& one : values) {
    const auto is_like = [&](const Group& group) {
      return group.buffers[0].scalar_type() == one.buffer.scalar_type() &&
             group.buffers[0].device() == one.buffer.device();
    };
    const auto found = std::ranges::find_if(groups, is_like);
    const auto i = static_cast<std::size_t>(found - groups.begin());
    if (found == groups.end()) {
      groups.emplace_back();
      rows.emplace_back();
    }
    groups[i].buffers.push_back(one.buffer);
    groups[i].rows.push_back(row_of(one.buffer));
    groups[i].counts.push_back(one.buffer.numel());
    rows[i].push_back(one.row);
  }
  for (std::size_t i = 0; i < groups.size(); ++i) groups[i].copy = at::cat(rows[i]);
  return groups;
}

/// True if buffer `i` has the type, the device, the number of elements and the memory for which
/// the group was made.
bool StepSnapshot::Group::is_current(std::size_t i) const {
  const at::Tensor &buffer = buffers[i], &row = rows[i];
  if (!keeps(i) || buffer.is_contiguous() != row.defined()) return false;
  return !row.defined() ||
         (row.is_alias_of(buffer) && row.storage_offset() == buffer.storage_offset());
}

/// True if the copy of buffer `i` still suits it.
bool StepSnapshot::Group::keeps(std::size_t i) const {
  return buffers[i].numel() == counts[i] && buffers[i].device() == copy.device() &&
         buffers[i].scalar_type() == copy.scalar_type();
}

bool StepSnapshot::Group::is_current() const {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!is_current(i)) return false;
  }
  return true;
}

std::vector<at::Tensor> StepSnapshot::Group::elements() const {
  std::vector<at::Tensor> all;
  for (std::size_t i = 0; i < buffers.size(); ++i)
    all.push_back(rows[i].defined() ? rows[i] : buffers[i].reshape(-1));
  return all;
}

/// Makes the groups anew. Buffers that have changed their size, type or device are saved.
void StepSnapshot::regroup() {
  std::vector<Values> values;
  for (const Group& group : groups_) {
    const std::vector<at::Tensor> copies = group.copy.split_with_sizes(group.counts);
    for (std::size_t i = 0; i < copies.size(); ++i) {
      const at::Tensor& buffer = group.buffers[i];
      values.push_back({buffer, group.keeps(i) ? copies[i] : buffer.reshape(-1)});
    }
  }
  groups_ = grouped(values);
}

void StepSnapshot::save(const std::optional<at::Tensor>& failed) {
  const torch::NoGradGuard no_graph;
  if (!std::ranges::all_of(groups_, [](const Group& group) { return group.is_current(); }))
    regroup();
  const at::Tensor has_failed = failed ? failed->to(torch::kBool) : at::Tensor();
  std::vector<at::Tensor> now, failed_there;  // first, all that allocates
  for (const Group& group : groups_) {
    if (!failed) continue;
    now.push_back(at::cat(group.elements()));
    failed_there.push_back(has_failed.to(group.copy.device()));
  }
  generators_ = generator_states(device_);
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    if (failed) at::where_out(group.copy, failed_there[i], group.copy, now[i]);
    else at::cat_out(group.copy, group.elements());
  }
}

void StepSnapshot::restore(const GeneratorStates& generators) const {
  const torch::NoGradGuard no_graph;
  drop_gradients(*network_);
  for (const Group& group : groups_) {
    const std::vector<at::Tensor> copies = group.copy.split_with_sizes(group.counts);
    for (std::size_t i = 0; i < copies.size(); ++i)
      group.buffers[i].copy_(copies[i].view(group.buffers[i].sizes()));
  }
  set_generator_states(generators);
}

std::int64_t StepSnapshot::generator_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [device, state] : generators_) bytes += state.nbytes();
  return static_cast<std::int64_t>(bytes);
}

}  // namespace stages
