#include "stages/train/sharded_parameters.h"

#include <algorithm>
#include <map>
#include <utility>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "stages/numerics/recomputable_module.h"
#include "stages/plan/memory_trace.h"
#include "stages/ranks/rank_group.h"
#include "stages/tensor/module_names.h"
#include "stages/tensor/tensor_memory.h"

namespace stages {
namespace {

/// Parameters begin at multiples of this many bytes, as in memory from LibTorch's allocators.
constexpr std::int64_t kWeightAlignment = 64;

std::int64_t size_in_bytes(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.nbytes());
}

/// A block that is not part of another one, and the parameters that only it uses.
struct BlockOfNetwork {
  std::string path;
  RecomputableModule* module;
  std::vector<std::pair<std::string, at::Tensor>> parameters = {};
};

/// Returns how many parameters and buffers in the module tree use each storage.
std::map<const void*, int> uses_of_storages(const torch::nn::Module& network) {
  std::map<const void*, int> uses;
  const auto count = [&uses](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.has_storage()) ++uses[tensor.storage().unsafeGetStorageImpl()];
  };
  for (const auto& module : network.modules()) {
    for (const at::Tensor& tensor : module->parameters(/*recurse=*/false)) count(tensor);
    for (const at::Tensor& tensor : module->buffers(/*recurse=*/false)) count(tensor);
  }
  return uses;
}

std::vector<BlockOfNetwork> outermost_blocks(const torch::nn::Module& network) {
  const std::map<const void*, int> uses = uses_of_storages(network);
  std::vector<BlockOfNetwork> blocks;
  for (const auto& [name, module] : modules_by_path(network)) {
    const std::string& path = name;
    auto* const block = dynamic_cast<RecomputableModule*>(const_cast<torch::nn::Module*>(module));
    if (!block || !block->is_block()) continue;
    const bool is_inside = std::ranges::any_of(blocks, [&path](const BlockOfNetwork& other) {
      return path.starts_with(other.path + ".");
    });
    if (is_inside) continue;
    blocks.push_back({path, block});
    for (const auto& item : block->named_parameters()) {
      const at::Tensor& parameter = item.value();
      if (parameter.numel() == 0 || (has_memory(parameter) && !fills_its_storage(parameter)))
        continue;
      if (uses.at(parameter.storage().unsafeGetStorageImpl()) > 1) continue;
      blocks.back().parameters.emplace_back(path + "." + item.key(), parameter);
    }
  }
  return blocks;
}

std::set<const c10::TensorImpl*> parameters_of_blocks(const torch::nn::Module& network) {
  std::set<const c10::TensorImpl*> all;
  for (const BlockOfNetwork& block : outermost_blocks(network)) {
    for (const auto& [name, parameter] : block.parameters)
      all.insert(parameter.unsafeGetTensorImpl());
  }
  return all;
}

}  // namespace

StateShard shard_of_blocks(const torch::nn::Module& network, const std::vector<at::Tensor>& trained,
                           int rank, int ranks) {
  const std::set<const c10::TensorImpl*> of_blocks = parameters_of_blocks(network);
  StateShard shard{.rank = rank, .owners = std::vector<int>(trained.size())};
  for (const bool in_blocks : {true, false}) {
    std::vector<std::size_t> which;
    std::vector<std::int64_t> bytes;
    for (std::size_t i = 0; i < trained.size(); ++i) {
      if (of_blocks.contains(trained[i].unsafeGetTensorImpl()) != in_blocks) continue;
      which.push_back(i);
      bytes.push_back(size_in_bytes(trained[i]));
    }
    const std::vector<int> owners = owners_of(bytes, ranks);
    for (std::size_t i = 0; i < which.size(); ++i) shard.owners[which[i]] = owners[i];
  }
  return shard;
}

std::set<const c10::TensorImpl*> parameters_elsewhere(const torch::nn::Module& network,
                                                      const std::vector<at::Tensor>& trained,
                                                      const StateShard& shard) {
  const std::set<const c10::TensorImpl*> of_blocks = parameters_of_blocks(network);
  std::set<const c10::TensorImpl*> elsewhere;
  for (std::size_t i = 0; i < trained.size(); ++i) {
    const c10::TensorImpl* const parameter = trained[i].unsafeGetTensorImpl();
    if (of_blocks.contains(parameter) && !shard.keeps(i)) elsewhere.insert(parameter);
  }
  return elsewhere;
}

std::map<std::string, int> owners_in_blocks(const torch::nn::Module& network,
                                            const std::vector<at::Tensor>& trained,
                                            const StateShard& shard, int ranks) {
  std::map<const void*, int> owners;
  for (std::size_t i = 0; i < trained.size(); ++i)
    owners.emplace(trained[i].unsafeGetTensorImpl(), shard.owners[i]);
  const std::vector<BlockOfNetwork> blocks = outermost_blocks(network);
  std::vector<at::Tensor> frozen;
  for (const BlockOfNetwork& block : blocks) {
    for (const auto& [name, parameter] : block.parameters) {
      if (!owners.contains(parameter.unsafeGetTensorImpl())) frozen.push_back(parameter);
    }
  }
  const StateShard rest = shard_of(frozen, shard.rank, ranks);
  for (std::size_t i = 0; i < frozen.size(); ++i)
    owners.emplace(frozen[i].unsafeGetTensorImpl(), rest.owners[i]);
  std::map<std::string, int> by_name;
  for (const BlockOfNetwork& block : blocks) {
    for (const auto& [name, parameter] : block.parameters)
      by_name.emplace(name, owners.at(parameter.unsafeGetTensorImpl()));
  }
  return by_name;
}

/// The parameters of one block.
class ShardedParameters::Block final : public PassingWeights {
 public:
  struct Weight {
    std::string name;
    at::Tensor tensor;
    int owner;
    std::int64_t begin = 0;  // position in the gathered memory
    c10::DataPtr own = {};   // the rank's own memory while the block is gathered
  };

  Block(std::string path, RecomputableModule& module, std::vector<Weight> weights,
        const runner::RankOfRun& ranks, std::int64_t number)
      : path_(std::move(path)),
        module_(module),
        weights_(std::move(weights)),
        ranks_(ranks),
        number_(number) {
    std::ranges::stable_sort(weights_, {}, &Weight::owner);
    for (Weight& weight : weights_) {
      weight.begin = bytes_;
      bytes_ += (size_in_bytes(weight.tensor) + kWeightAlignment - 1) / kWeightAlignment *
                kWeightAlignment;
      if (!is_own(weight)) free_memory(weight.tensor);
    }
    module_.run_with(this);
  }
  ~Block() override { module_.run_with(nullptr); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  const std::vector<Weight>& weights() const { return weights_; }

  void gather() override {
    if (depth_ == 0) {
      try {
        fill();
      } catch (...) {
        gathered_.reset();
        throw;
      }
      for (Weight& weight : weights_)
        weight.own = exchange_memory(weight.tensor, part_of_memory(gathered_, weight.begin));
    }
    ++depth_;
  }

  void release() noexcept override {
    if (--depth_ > 0) return;
    for (Weight& weight : weights_) {
      exchange_memory(weight.tensor, std::move(weight.own));
      if (!is_own(weight)) free_memory(weight.tensor);
    }
    gathered_.reset();
  }

  /// Has each owner send its part to all ranks, all of which have requested this block.
  void broadcast(RankGroup& group) {
    for (auto begin = weights_.begin(); begin != weights_.end();) {
      const auto end = std::ranges::find_if(
          begin, weights_.end(), [&](const Weight& one) { return one.owner != begin->owner; });
      const std::int64_t last = end == weights_.end() ? bytes_ : end->begin;
      group.broadcast(gathered_.narrow(0, begin->begin, last - begin->begin), begin->owner);
      begin = end;
    }
  }

  /// Has each owner send its weights to the rank `to`, which has requested this block.
  void send(RankGroup& group, int to) {
    for (const Weight& weight : weights_) {
      if (weight.owner == to) continue;
      if (is_own(weight)) group.send(memory_as_bytes(weight.tensor), to);
      if (group.rank() == to) group.receive(place_of(weight), weight.owner);
    }
  }

  /// Gives the rank all weights until this object is destroyed.
  void join() {
    for (const Weight& weight : weights_) {
      if (!is_own(weight)) allocate_memory(weight.tensor);
      if (RankGroup* const group = group_of(ranks_))
        group->broadcast(memory_as_bytes(weight.tensor), weight.owner);
    }
    module_.run_with(nullptr);
  }

 private:
  bool is_own(const Weight& weight) const { return weight.owner == ranks_.rank; }

  at::Tensor place_of(const Weight& weight) const {
    return gathered_.narrow(0, weight.begin, size_in_bytes(weight.tensor));
  }

  void fill() {
    const torch::NoGradGuard no_graph;
    const at::TensorOptions options = weights_.front().tensor.options();
    gathered_ = torch::empty({bytes_}, options.dtype(torch::kByte).requires_grad(false));
    mark_parameters(gathered_, path_);
    for (const Weight& weight : weights_) {
      if (is_own(weight)) place_of(weight).copy_(memory_as_bytes(weight.tensor));
    }
    if (RankGroup* const group = group_of(ranks_)) group->ask_in_work(number_);
  }

  const std::string path_;
  RecomputableModule& module_;
  std::vector<Weight> weights_;  // by owner
  const runner::RankOfRun ranks_;
  const std::int64_t number_;  // from 1
  std::int64_t bytes_ = 0;
  at::Tensor gathered_;  // undefined unless gathered
  int depth_ = 0;        // calls of gather() without release()
};

ShardedParameters::ShardedParameters(torch::nn::Module& network,
                                     const std::vector<at::Tensor>& trained,
                                     const StateShard& shard, const runner::RankOfRun& ranks)
    : ranks_(ranks) {
  const std::map<std::string, int> owners = owners_in_blocks(network, trained, shard, ranks.size);
  for (const BlockOfNetwork& block : outermost_blocks(network)) {
    if (block.parameters.empty()) continue;
    std::vector<Block::Weight> weights;
    for (const auto& [name, parameter] : block.parameters) {
      weights.push_back({name, parameter, owners.at(name)});
      apart_.insert(parameter.unsafeGetTensorImpl());
    }
    blocks_.push_back(std::make_unique<Block>(block.path, *block.module, std::move(weights), ranks,
                                              std::ssize(blocks_) + 1));
  }
  if (RankGroup* const group = group_of(ranks_))
    group->answer_with([this](const std::vector<std::int64_t>& asked) { answer(asked); });
}

ShardedParameters::~ShardedParameters() {
  if (RankGroup* const group = group_of(ranks_)) group->answer_with(nullptr);
}

void ShardedParameters::answer(const std::vector<std::int64_t>& asked) {
  const auto block = [this](std::int64_t number) -> Block& {
    return *blocks_.at(static_cast<std::size_t>(number - 1));
  };
  RankGroup& group = *group_of(ranks_);
  if (std::ranges::count(asked, asked.front()) == std::ssize(asked))
    return block(asked.front()).broadcast(group);
  for (std::size_t rank = 0; rank < asked.size(); ++rank) {
    if (asked[rank] > 0) block(asked[rank]).send(group, static_cast<int>(rank));
  }
}

void ShardedParameters::join() {
  for (const auto& block : blocks_) block->join();
  blocks_.clear();
}

bool ShardedParameters::keeps_apart(const at::Tensor& parameter) const {
  return apart_.contains(parameter.unsafeGetTensorImpl());
}

std::optional<int> ShardedParameters::owner_of(std::string_view name) const {
  for (const auto& block : blocks_) {
    for (const Block::Weight& weight : block->weights()) {
      if (weight.name == name) return weight.owner;
    }
  }
  return {};
}

}  // namespace stages
