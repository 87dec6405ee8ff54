#include "stages/python/python_network.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include "runner/shared/error/stage_error.h"
#include "stages/python/python_host.h"
#include "stages/random/dropout.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using runner::ErrorCode;
using runner::StageError;

std::map<std::int64_t, PythonNetwork*>& networks() {
  static std::map<std::int64_t, PythonNetwork*> all;
  return all;
}

std::int64_t next_id() {
  static std::int64_t last = 0;
  return ++last;
}

/// A module of a network of Python, for its place and names.
class PythonPart : public torch::nn::Module {};

/// The module that holds what has this dotted name, and the name there; modules on the way are
/// made.
std::pair<torch::nn::Module*, std::string> place_of(torch::nn::Module& root,
                                                    const std::string& path) {
  torch::nn::Module* module = &root;
  std::size_t begin = 0;
  for (std::size_t dot = path.find('.'); dot != path.npos; dot = path.find('.', begin)) {
    const std::string name = path.substr(begin, dot - begin);
    begin = dot + 1;
    const auto children = module->named_children();
    const std::shared_ptr<torch::nn::Module>* child = children.find(name);
    module =
        child ? child->get() : module->register_module(name, std::make_shared<PythonPart>()).get();
  }
  return {module, path.substr(begin)};
}

void add_module(torch::nn::Module& root, const std::string& path,
                std::shared_ptr<torch::nn::Module> module) {
  const auto [holder, name] = place_of(root, path);
  if (!holder->named_children().contains(name)) holder->register_module(name, std::move(module));
}

}  // namespace

PythonNetwork::PythonNetwork(const Json& request) : id_(next_id()) {
  Json complete = request;
  complete["do"] = "build";
  complete["network"] = id_;
  const Json made = call_python(complete);
  networks()[id_] = this;
  mixes_samples_ = made.at("mixes_samples");
  for (const Json& dropout : made.at("dropouts")) {
    add_module(*this, dropout.at("path"),
               std::make_shared<Dropout>(
                   dropout.at("probability").get<double>(),
                   dropout.at("of_samples") ? DropoutUnit::kSample : DropoutUnit::kElement));
  }
  for (const Json& path : made.at("modules"))
    add_module(*this, path, std::make_shared<PythonPart>());
  for (const Json& parameter : made.at("parameters")) {
    const std::string path = parameter;
    at::Tensor tensor = taken_from_python("parameter:" + path);
    if (tensor.scalar_type() != at::kFloat) {
      throw StageError(ErrorCode::kStageFailed, "the network's parameter '" + path + "' is " +
                                                    c10::toString(tensor.scalar_type()) +
                                                    ", not float32")
          .with_help("make the network in float32; memory.precision chooses half precision");
    }
    const auto [holder, name] = place_of(*this, path);
    const bool is_trained = tensor.requires_grad();
    holder->register_parameter(name, tensor, is_trained);
  }
  for (const Json& buffer : made.at("buffers")) {
    const std::string path = buffer;
    const auto [holder, name] = place_of(*this, path);
    holder->register_buffer(name, taken_from_python("buffer:" + path));
  }
  clear_python_tensors();
}

PythonNetwork::~PythonNetwork() {
  networks().erase(id_);
  try {
    call_python({{"do", "release"}, {"network", id_}});
  } catch (const StageError&) {
    // Python keeps it then, until the worker ends.
  }
}

void PythonNetwork::train(bool on) {
  torch::nn::Module::train(on);
  call_python({{"do", "train"}, {"network", id_}, {"on", on}});
}

NamedTensors PythonNetwork::forward(const at::Tensor& input) {
  const bool is_watched = is_training() && input.device().type() != at::kMeta;
  const auto drawn = [&] {
    return at::globalContext().defaultGenerator(input.device()).get_state();
  };
  const at::Tensor before = is_watched ? drawn() : at::Tensor();
  give_to_python("input", input);
  const Json reply = call_python({{"do", "forward"}, {"network", id_}});
  NamedTensors outputs;
  for (const Json& output : reply.at("outputs")) {
    const std::string name = output;
    outputs.set(name, taken_from_python("output:" + name));
  }
  clear_python_tensors();
  if (is_watched && !before.equal(drawn())) {
    throw StageError(ErrorCode::kStageFailed,
                     "the network draws random numbers that no record can repeat")
        .with_help(
            "draw them in modules of type torch.nn.Dropout or DropPath, which Retort "
            "replaces by masks that a seed, a step and a sample determine");
  }
  return outputs;
}

at::Tensor drop_in_network(const at::Tensor& x, std::int64_t id, std::string path) {
  const auto found = networks().find(id);
  TORCH_CHECK(found != networks().end(), "retort::dropout: there is no network ", id);
  for (const auto& item : found->second->named_modules()) {
    const auto* dropout = item.key() == path ? item.value()->as<Dropout>() : nullptr;
    if (!dropout) continue;
    const std::int64_t samples = dropout->rows();
    const bool is_in_pieces =
        samples > 0 && x.size(0) != samples && x.size(0) % samples == 0;  // windows of an image
    if (!is_in_pieces) return dropout->forward(x);
    return dropout->forward(x.reshape({samples, -1})).reshape(x.sizes());
  }
  TORCH_CHECK(false, "retort::dropout: the network has no dropout layer '", path, "'");
}

}  // namespace stages
