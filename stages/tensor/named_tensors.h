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
  /// The names must differ; this is not checked.
  explicit NamedTensors(std::vector<Item> items) : items_(std::move(items)) {}

  /// Replaces the tensor of that name, or appends it if there is none.
  void set(std::string_view name, at::Tensor tensor);
  /// Returns the tensor of that name; a later set() does not change it. Throws std::out_of_range
  /// with a list of the existing names.
  at::Tensor at(std::string_view name) const;
  bool contains(std::string_view name) const;

  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  std::size_t size() const { return items_.size(); }

 private:
  std::vector<Item> items_;
};

}  // namespace stages
