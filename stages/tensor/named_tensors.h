#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

namespace stages {

/// A few tensors by name, in a fixed order: the inputs of a batch, the embeddings of a network, the
/// terms of a loss.
class NamedTensors {
 public:
  using Item = std::pair<std::string, at::Tensor>;

  NamedTensors() = default;
  NamedTensors(std::initializer_list<Item> items) : items_(items) {}
  /// The names must differ; not checked.
  explicit NamedTensors(std::vector<Item> items) : items_(std::move(items)) {}

  /// Replaces a tensor of that name, or appends.
  void set(std::string_view name, at::Tensor tensor);
  /// The tensor of that name, which stays whatever is set() later; throws std::out_of_range naming
  /// those there are.
  at::Tensor at(std::string_view name) const;
  bool contains(std::string_view name) const;

  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  std::size_t size() const { return items_.size(); }

 private:
  std::vector<Item> items_;
};

}  // namespace stages
