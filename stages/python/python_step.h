#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "stages/tensor/batch.h"
#include "stages/tensor/named_tensors.h"

namespace torch::nn {
class Module;
}

namespace stages {

/// An object created by Python (retort_host/steps.py) that turns a batch into a loss. Its functions
/// throw runner::StageError if Python fails, draws random numbers, changes its arguments, or
/// returns anything but tensors on the batch's device.
class PythonStep {
 public:
  /// Calls `entry` with `arguments`, a mapping, to create the object.
  PythonStep(const std::string& entry, const nlohmann::ordered_json& arguments);
  ~PythonStep();
  PythonStep(const PythonStep&) = delete;
  PythonStep& operator=(const PythonStep&) = delete;

  /// True if the object has an encode() method, or a score() method.
  bool encodes() const { return encodes_; }
  bool scores() const { return scores_; }

  /// Computes the encodings of a batch's rows. The object's encode() method receives Python's own
  /// network or, if `network` is not a PythonNetwork, a function that runs `forward`.
  using Forward = std::function<NamedTensors(const NamedTensors& inputs)>;
  NamedTensors encode(torch::nn::Module& network, const Batch& batch, const Forward& forward) const;
  at::Tensor loss(const NamedTensors& encoded, const Batch& batch) const;
  NamedTensors score(const NamedTensors& encoded, const Batch& batch) const;

  /// Returns "loss() of my_step.py:Step".
  std::string named(const std::string& method) const { return method + "() of " + entry_; }

 private:
  NamedTensors taken(const char* method, const char* prefix, const nlohmann::ordered_json& names,
                     const Batch& batch) const;

  const std::int64_t id_;
  const std::string entry_;
  bool encodes_ = false, scores_ = false;
};

/// Implements the retort::run_network operator: calls the `forward` of the encode() in progress.
std::tuple<std::vector<std::string>, std::vector<at::Tensor>> run_encoded_network(
    const std::vector<std::string>& names, const std::vector<at::Tensor>& inputs);

}  // namespace stages
