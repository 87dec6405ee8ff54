#include "stages/python/python_network.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <torch/types.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include "runner/shared/error/stage_error.h"
#include "stages/numerics/recomputable_module.h"
#include "stages/python/python_host.h"
#include "stages/random/generator_state.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using runner::ErrorCode;
using runner::StageError;

std::map<std::int64_t, PythonNetwork*>& networks() {
  static std::map<std::int64_t, PythonNetwork*> all;
  return all;
}

PythonNetwork& network_of(std::int64_t id) {
  const auto found = networks().find(id);
  TORCH_CHECK(found != networks().end(), "there is no network ", id);
  return *found->second;
}

std::int64_t next_id() {
  static std::int64_t last = 0;
  return ++last;
}

/// A module of a Python network that exists only for the module tree and its names.
class PythonPart : public torch::nn::Module {};

/// A repeated block of a Python network.
class PythonBlock : public RecomputableModule, public HostedModule {
 public:
  bool is_block() const override { return true; }
  bool is_active() const override { return is_recomputed() || has_format(); }
  at::Tensor run(const at::Tensor& x, const InPython& in_python) override {
    return forward_of(x, [this, in_python](const at::Tensor& input) {
      if (!has_format()) return in_python(input);
      at::Tensor output;
      {
        const OwnPrecision own(*this);
        output = in_python(own(input));
      }
      return taken_in(current_precision(input.device()), output);
    });
  }

 private:
  at::Tensor compute(const at::Tensor&) const override {
    throw std::logic_error("a block in Python can only be run by its network");
  }
};

/// Makes Python initialize CUDA before the generators' states are compared. Otherwise, Python would
/// do so when it creates its first tensor on the GPU, which also seeds the generators.
void set_up(at::Device device) {
  static bool is_done = false;
  if (is_done || !device.is_cuda()) return;
  call_python({{"do", "set_up_cuda"}});
  is_done = true;
}

/// Keeps, for its lifetime, the arguments that Python stores for a call to a hosted module.
class KeptCall {
 public:
  explicit KeptCall(std::int64_t call) : call_(call) {}
  ~KeptCall() {
    try {
      call_python({{"do", "forget"}, {"call", call_}});
    } catch (const StageError&) {
      // Python then keeps the arguments until the worker exits.
    }
  }
  KeptCall(const KeptCall&) = delete;
  KeptCall& operator=(const KeptCall&) = delete;

 private:
  const std::int64_t call_;
};

/// Returns the module that directly contains the item with this dotted name, and the item's name in
/// that module. Creates missing modules along the way.
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

/// Reshapes `x` to one row per sample if its rows are pieces of samples, such as windows of an
/// image. Otherwise returns `x`.
at::Tensor by_sample(const at::Tensor& x, std::int64_t samples) {
  const bool is_in_pieces = samples > 0 && x.size(0) != samples && x.size(0) % samples == 0;
  return is_in_pieces ? x.reshape({samples, -1}) : x;
}

/// Drops all rows or none.
at::Tensor drop_batch(const Dropout& dropout, const at::Tensor& x) {
  return x * dropout.factor_of_all(x.options());
}

at::Tensor drop_channels(const Dropout& dropout, const at::Tensor& x) {
  const at::Tensor factors = dropout.forward(torch::ones({x.size(0), x.size(1)}, x.options()));
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.dim()), 1);
  shape[0] = x.size(0);
  shape[1] = x.size(1);
  return x * factors.view(shape);
}

}  // namespace

PythonNetwork::PythonNetwork(const Json& request, bool draws, const MakeHostedLayer& make_layer)
    : id_(next_id()) {
  Json complete = request;
  complete["do"] = "build";
  complete["network"] = id_;
  const Json made = call_python(complete);
  networks()[id_] = this;
  if (!made.at("mixing_layer").is_null()) mixing_layer_ = made.at("mixing_layer");
  if (!made.at("lone_mixing_layer").is_null()) lone_mixing_layer_ = made.at("lone_mixing_layer");
  for (const auto& [name, ours] : made.at("state").items()) state_.emplace_back(name, ours);
  pretrained_ = std::make_shared<const Json>(made.at("pretrained"));
  towers_ = std::make_shared<const Json>(made.at("towers"));
  class_ = std::make_shared<const Json>(made.at("class"));
  // Follows the order of Python's modules, which determines the numbers of the dropout layers.
  for (const Json& item : made.at("modules")) {
    const std::string path = item;
    const auto& layers = made.at("layers");
    if (std::ranges::find(made.at("blocks"), item) != made.at("blocks").end())
      add_hosted(path, std::make_shared<PythonBlock>());
    else if (const auto layer = layers.find(path); layer != layers.end())
      add_hosted(path, make_layer(*layer));
  }
  add_dropouts(made);
  for (const Json& path : made.at("modules"))
    add_module(*this, path, std::make_shared<PythonPart>());
  add_tensors(made);
  if (draws) draws_ = register_module("retort_draws", std::make_shared<Dropout>(/*probability=*/1));
  clear_python_tensors();
}

PythonNetwork::~PythonNetwork() {
  networks().erase(id_);
  try {
    call_python({{"do", "release"}, {"network", id_}});
  } catch (const StageError&) {
    // Python then keeps the network until the worker exits.
  }
}

void PythonNetwork::add_hosted(const std::string& path, std::shared_ptr<torch::nn::Module> module) {
  auto* const hosted = dynamic_cast<HostedModule*>(module.get());
  TORCH_CHECK(hosted, "a hosted module must be a HostedModule");
  hosted_.emplace_back(path, hosted);
  add_module(*this, path, std::move(module));
}

void PythonNetwork::add_dropouts(const Json& made) {
  for (const Json& item : made.at("dropouts")) {
    const std::string path = item.at("path"), unit = item.at("unit");
    auto dropout =
        std::make_shared<Dropout>(item.at("probability").get<double>(),
                                  unit == "sample" ? DropoutUnit::kSample : DropoutUnit::kElement);
    dropouts_[path] = {dropout, unit};
    add_module(*this, path, std::move(dropout));
  }
}

void PythonNetwork::add_tensors(const Json& made) {
  for (const Json& parameter : made.at("parameters")) {
    const std::string path = parameter;
    at::Tensor tensor = taken_from_python("parameter:" + path);
    if (tensor.scalar_type() != at::kFloat) {
      throw StageError(ErrorCode::kStageFailed, "the network's parameter '" + path + "' is " +
                                                    c10::toString(tensor.scalar_type()) +
                                                    ", not float32")
          .with_help("create the network in float32; memory.precision selects half precision");
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
}

void PythonNetwork::train(bool on) {
  torch::nn::Module::train(on);
  call_python({{"do", "train"}, {"network", id_}, {"on", on}});
}

std::vector<std::string> PythonNetwork::active() const {
  std::vector<std::string> paths;
  for (const auto& [path, module] : hosted_) {
    if (module->is_active()) paths.push_back(path);
  }
  return paths;
}

bool PythonNetwork::seed_draws(at::Device device) const {
  if (!draws_ || !is_training()) return false;
  const std::optional<std::uint64_t> seed = draws_->drawing_seed();
  if (!seed || device.is_meta()) return true;
  for (const auto& entry : generator_states(device)) {
    at::Generator generator = at::globalContext().defaultGenerator(entry.first);
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(*seed);
  }
  return true;
}

NamedTensors PythonNetwork::forward(const at::Tensor& input) {
  return run_forward(input, /*wants_maps=*/false).first;
}

std::pair<NamedTensors, at::Tensor> PythonNetwork::forward_with_maps(const at::Tensor& input) {
  return run_forward(input, /*wants_maps=*/true);
}

at::Tensor PythonNetwork::run_tower(const std::string& tower, const at::Tensor& input) {
  const std::string output = tower == "class_head" ? "logits" : tower + "_embeddings";
  return run_forward(input, /*wants_maps=*/false, tower).first.at(output);
}

std::pair<NamedTensors, at::Tensor> PythonNetwork::run_forward(const at::Tensor& input,
                                                               bool wants_maps,
                                                               const std::string& tower) {
  set_up(input.device());
  const bool is_real = input.device().type() != at::kMeta;
  const auto drawn = [&] {
    return at::globalContext().defaultGenerator(input.device()).get_state();
  };
  const bool may_draw = seed_draws(input.device());
  const at::Tensor before = is_real && !may_draw ? drawn() : at::Tensor();
  give_to_python("input", input);
  const Json reply = call_python({{"do", "forward"},
                                  {"network", id_},
                                  {"active", active()},
                                  {"maps", wants_maps},
                                  {"tower", tower}});
  NamedTensors outputs;
  for (const Json& output : reply.at("outputs")) {
    const std::string name = output;
    outputs.set(name, taken_from_python("output:" + name));
  }
  at::Tensor maps;
  if (reply.at("has_maps")) maps = taken_from_python("maps");
  clear_python_tensors();
  if (before.defined() && !before.equal(drawn())) {
    throw StageError(ErrorCode::kStageFailed,
                     is_training()
                         ? "the network draws random numbers in places that the plan did not find"
                         : "the network draws random numbers in evaluation, so its "
                           "predictions cannot be repeated")
        .with_help(is_training()
                       ? "draw them in modules of type torch.nn.Dropout or DropPath, which Retort "
                         "replaces with masks determined by seed, step and sample"
                       : "draw random numbers only if self.training is true");
  }
  return {std::move(outputs), std::move(maps)};
}

PythonNetwork::Draws PythonNetwork::find_draws(const std::vector<std::int64_t>& shape,
                                               std::int64_t tokens, const char* device) const {
  Json request = {{"do", "probe"}, {"network", id_}, {"tokens", tokens}, {"device", device}};
  if (!shape.empty()) request["shape"] = shape;
  const Json found = call_python(request);
  if (found.empty()) return {};
  Draws draws = {
      .is_known = true, .places = found.at("draws"), .own_modules = found.at("own_modules")};
  for (const Json& call : found.at("dropout_calls"))
    draws.dropout_calls.push_back({call.at("path"), call.at("number"), call.at("probability")});
  if (!found.at("token_rows").is_null()) draws.token_rows = found.at("token_rows");
  return draws;
}

at::Tensor drop_in_network(const at::Tensor& x, std::int64_t id, std::string path,
                           std::optional<double> probability) {
  const PythonNetwork& network = network_of(id);
  const auto found = network.dropouts_.find(path);
  TORCH_CHECK(found != network.dropouts_.end(), "the network has no dropout layer '", path, "'");
  const auto& [dropout, unit] = found->second;
  if (!dropout->is_active()) return x;
  if (unit == "channel") return drop_channels(*dropout, x);
  if (unit == "batch") return drop_batch(*dropout, x);
  return dropout->forward(by_sample(x, dropout->rows()), probability).reshape(x.sizes());
}

at::Tensor run_in_network(const at::Tensor& x, std::int64_t id, std::string path,
                          std::int64_t call) {
  const PythonNetwork& network = network_of(id);
  const auto hosted = std::ranges::find(
      network.hosted_, path, [](const auto& one) -> const auto& { return one.first; });
  TORCH_CHECK(hosted != network.hosted_.end(), "the network does not host '", path, "'");
  const auto kept = call > 0 ? std::make_shared<KeptCall>(call) : nullptr;
  return hosted->second->run(x, [id, path, call, kept](const at::Tensor& input) {
    give_to_python("argument", input);
    call_python({{"do", "run"}, {"network", id}, {"path", path}, {"call", call}});
    return taken_from_python("result");
  });
}

}  // namespace stages
