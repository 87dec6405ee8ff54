#pragma once

#include <cstdint>
#include <string>

#include <torch/nn/module.h>
#include <nlohmann/json_fwd.hpp>

#include "stages/tensor/named_tensors.h"

namespace stages {

/// A network that Python has made, as a tree of modules with Python's names that share its
/// parameters and buffers: what moves, freezes, trains and saves them here does so there. Python
/// computes. Its dropout layers are ours (stages/random/dropout.h).
class PythonNetwork : public torch::nn::Module {
 public:
  /// Has Python make the network that `request` describes (retort_host/networks.py, build). Throws
  /// runner::StageError if it fails, or if a parameter is not float32.
  explicit PythonNetwork(const nlohmann::ordered_json& request);
  ~PythonNetwork() override;

  void train(bool on = true) override;
  /// What Python's forward returns for `input`: "logits", or its mapping's tensors by their names.
  /// Throws runner::StageError if it fails, returns something else, or draws random numbers other
  /// than by dropout layers.
  NamedTensors forward(const at::Tensor& input);

  /// Its number among the networks that Python has made.
  std::int64_t id() const { return id_; }
  /// True if layers of it normalise over the samples of a batch in training.
  bool mixes_samples() const { return mixes_samples_; }

 private:
  const std::int64_t id_;
  bool mixes_samples_ = false;
};

/// The operator retort::dropout: the dropout layer at `path` of the network `id`, for rows of one
/// sample or of several pieces of each.
at::Tensor drop_in_network(const at::Tensor& x, std::int64_t id, std::string path);

}  // namespace stages
