#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <nlohmann/json_fwd.hpp>

#include "stages/python/hosted_module.h"
#include "stages/random/dropout.h"
#include "stages/tensor/named_tensors.h"

namespace stages {

/// Creates the module for a linear layer in Python (with null `steps`) or a convolution. The module
/// must be a HostedModule; the layer's weights are registered with it afterward.
using MakeHostedLayer =
    std::function<std::shared_ptr<torch::nn::Module>(const nlohmann::ordered_json& steps)>;

/// A network created by Python. It is a tree of modules with Python's names that shares parameters
/// and buffers with Python, so moving, freezing, training or saving them here affects both. Python
/// computes the network, but its dropout layers are Retort's (stages/random/dropout.h), its
/// repeated blocks are RecomputableModules, and its linear layers and convolutions are created by
/// `make_layer`.
class PythonNetwork : public torch::nn::Module {
 public:
  /// Has Python create the network that `request` describes (retort_host/networks.py, build). Set
  /// `draws` if the network draws random numbers itself: torch's generator is then seeded before
  /// each training forward pass, from the step and the samples. Throws runner::StageError if Python
  /// fails or a parameter is not float32.
  PythonNetwork(const nlohmann::ordered_json& request, bool draws,
                const MakeHostedLayer& make_layer);
  ~PythonNetwork() override;

  void train(bool on = true) override;
  /// Returns the result of Python's forward for `input`: a tensor as "logits", or the tensors of a
  /// mapping by name. Throws runner::StageError if it fails, returns something else, or draws
  /// random numbers outside dropout layers without `draws`.
  NamedTensors forward(const at::Tensor& input);

  /// Also returns the last feature maps, of shape (n, channels, height, width); undefined if the
  /// network has none.
  std::pair<NamedTensors, at::Tensor> forward_with_maps(const at::Tensor& input);

  /// Seeds torch's generators for a forward pass on this device. Call it before running Python's
  /// network directly. Returns false if the network does not draw on its own or is not in training
  /// mode.
  bool seed_draws(at::Device device) const;
  /// Returns the number of this network among those that Python has created.
  std::int64_t id() const { return id_; }
  /// Returns the paths of the hosted modules that Retort runs.
  std::vector<std::string> active() const;
  /// Returns the names under which Python saves tensors, each with the name of the parameter or
  /// buffer here.
  const std::vector<std::pair<std::string, std::string>>& state() const { return state_; }
  /// Returns the format of the input that the weights were trained on, {"input_size", "mean",
  /// "std", "fixed"}; null if they are not pretrained or the network does not specify it.
  const nlohmann::ordered_json& pretrained() const { return *pretrained_; }

  /// Returns the network's Python class, {"name", "module"}.
  const nlohmann::ordered_json& python_class() const { return *class_; }

  /// Returns a layer that normalizes over the samples of a batch in training, such as "'norm'
  /// (BatchNorm2d)"; empty if there is none.
  const std::string& mixing_layer() const { return mixing_layer_; }
  /// Returns a layer that normalizes over a batch without torch's batch_norm, so that it cannot see
  /// the samples of other ranks; empty if there is none.
  const std::string& lone_mixing_layer() const { return lone_mixing_layer_; }

  /// A call of a function that drops values, such as torch.nn.functional.dropout, in the forward
  /// pass of the module at `path`.
  struct DropoutCall {
    std::string path;
    std::int64_t number = 0;  ///< its position among the calls of one forward pass
    double probability = 0;
  };

  /// The random draws that a training forward pass makes outside Retort's dropout layers.
  struct Draws {
    bool is_known = false;                   ///< the network ran on the Meta device
    std::vector<std::string> places;         ///< "aten::bernoulli_ (my_net.py:12)"
    std::vector<std::string> own_modules;    ///< dropout layers with rows that are not samples, and
                                             ///< blocks that do not map one tensor to one tensor
    std::vector<DropoutCall> dropout_calls;  ///< for "dropout_calls" of a request, which makes
                                             ///< Retort compute them
    std::optional<std::int64_t> token_rows;  ///< rows of a text tower's token embedding
  };
  /// Runs the network and returns its random draws. The network must already be on `device`, "meta"
  /// or "cpu". `shape` is the shape of a sample; if it is empty, common image sizes are tried.
  /// `tokens` is the number of tokens of a text, or 0 if the network has no towers. Changes the
  /// network's buffers. Throws runner::StageError if the network draws from a generator other than
  /// torch's.
  Draws find_draws(const std::vector<std::int64_t>& shape, std::int64_t tokens,
                   const char* device) const;

 protected:
  /// Returns what Python has determined about the towers specified in the request; null if it
  /// specifies none.
  const nlohmann::ordered_json& towers() const { return *towers_; }
  /// Returns the output of the "image" or "text" tower for its input, or the logits of the
  /// "class_head" for image embeddings. Throws the same errors as forward().
  at::Tensor run_tower(const std::string& tower, const at::Tensor& input);

 private:
  friend at::Tensor drop_in_network(const at::Tensor& x, std::int64_t id, std::string path,
                                    std::optional<double> probability);
  friend at::Tensor run_in_network(const at::Tensor& x, std::int64_t id, std::string path,
                                   std::int64_t call);
  struct DropoutLayer {
    std::shared_ptr<Dropout> dropout;
    std::string unit;  ///< what is dropped: "element", "channel", "sample" or "batch"
  };

  void add_hosted(const std::string& path, std::shared_ptr<torch::nn::Module> module);
  void add_dropouts(const nlohmann::ordered_json& made);
  void add_tensors(const nlohmann::ordered_json& made);
  std::pair<NamedTensors, at::Tensor> run_forward(const at::Tensor& input, bool wants_maps,
                                                  const std::string& tower = "");

  const std::int64_t id_;
  std::string mixing_layer_, lone_mixing_layer_;
  std::vector<std::pair<std::string, std::string>> state_;
  std::shared_ptr<const nlohmann::ordered_json> pretrained_, towers_, class_;
  std::map<std::string, DropoutLayer, std::less<>> dropouts_;
  std::vector<std::pair<std::string, HostedModule*>> hosted_;  // modules in the tree
  std::shared_ptr<Dropout> draws_;  // holds the step and the samples; null if nothing is drawn
};

/// Implements the retort::dropout operator: applies the dropout layer at `path` of network `id`,
/// with its own probability or with another one. The rows of `x` are samples, or the same number of
/// pieces of each sample.
at::Tensor drop_in_network(const at::Tensor& x, std::int64_t id, std::string path,
                           std::optional<double> probability);

/// Implements the retort::run operator: runs the hosted module at `path` of network `id`. `call` is
/// the number under which Python keeps the other arguments of the call.
at::Tensor run_in_network(const at::Tensor& x, std::int64_t id, std::string path,
                          std::int64_t call);

}  // namespace stages
