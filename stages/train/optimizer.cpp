#include "stages/train/optimizer.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <torch/types.h>
#include <torch/utils.h>

#include "stages/train/muon.h"
#include "stages/train/single_rules.h"

namespace stages {

Optimizer::Optimizer(const std::vector<ParameterGroup>& groups, bool offloads, StateShard shard)
    : shard_(std::move(shard)) {
  assert(!groups.empty());
  for (const ParameterGroup& group : groups) {
    for (const auto& [name, tensor] : group.parameters) {
      const auto* muon = std::get_if<MuonOptions>(&group.optimizer);
      slots_.push_back({.name = name,
                        .group = names_.size(),
                        .parameter = tensor,
                        .is_matrix = muon && is_muon_matrix(*muon, name, tensor),
                        .is_quantized = stages::is_quantized(group.optimizer, tensor),
                        .is_kept = shard_.keeps(slots_.size())});
    }
    names_.push_back(group.name);
    options_.push_back(group.optimizer);
    rates_.push_back({.learning_rate = learning_rate(group.optimizer), .momentum = {}});
    frozen_epochs_.push_back(group.frozen_epochs);
  }
  if (!slots_.empty()) one_ = torch::ones({}, slots_[0].parameter.options().dtype(torch::kFloat));
  const auto has_movable = [&](const Slot& slot) { return !movable_parts(slot).empty(); };
  offloads_ = offloads && std::ranges::any_of(slots_, has_movable);
  if (std::ranges::any_of(slots_, &Slot::is_quantized)) {
    signed_.emplace(/*is_signed=*/true, slots_[0].parameter.device());
    unsigned_.emplace(/*is_signed=*/false, slots_[0].parameter.device());
  }
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].is_kept) kept.push_back(i);
  }
  rule_bytes_ = rule_bytes(kept);
}

Optimizer::Optimizer(OptimizerOptions options, NamedTensors parameters, bool offloads)
    : Optimizer(
          {{.name = "", .optimizer = std::move(options), .parameters = std::move(parameters)}},
          offloads) {}

std::vector<double> Optimizer::learning_rates() const {
  std::vector<double> result;
  for (const OptimizerOptions& options : options_) result.push_back(learning_rate(options));
  return result;
}

std::vector<StatePart> Optimizer::parts(const Slot& slot) const {
  return state_parts(options_[slot.group], slot.parameter, slot.is_matrix);
}

std::vector<StatePart> Optimizer::movable_parts(const Slot& slot) const {
  std::vector<StatePart> result = parts(slot);
  std::erase_if(result, &StatePart::is_age);
  return result;
}

at::Tensor Optimizer::zeros(const Slot& slot, const StatePart& part) {
  const BlockPart memory = memory_of(part, slot.parameter);
  return torch::empty_strided(memory.sizes, strides_of(memory),
                              slot.parameter.options().dtype(memory.type))
      .zero_();
}

at::Tensor Optimizer::outline(const Slot& slot, const StatePart& part) {
  const BlockPart memory = memory_of(part, slot.parameter);
  return torch::empty(memory.sizes, at::TensorOptions(at::kMeta).dtype(memory.type));
}

std::int64_t Optimizer::rule_bytes(const OptimizerOptions& rule, const at::Tensor& parameter,
                                   bool is_matrix) {
  if (!steps_singly(rule, is_matrix)) return 0;
  return StepScalars::bytes() + bytes_of(scratch_of(rule, parameter, is_matrix));
}

std::int64_t Optimizer::rule_bytes(const std::vector<std::size_t>& slots) const {
  std::int64_t most = 0;
  for (const std::size_t i : slots) {
    const Slot& slot = slots_[i];
    const at::Tensor tensor = slot.is_quantized ? first_chunk(slot) : slot.parameter;
    const std::int64_t of_chunk = slot.is_quantized ? bytes_of(chunk_parts(slot, tensor)) : 0;
    most = std::max(most, of_chunk + rule_bytes(options_[slot.group], tensor, slot.is_matrix));
  }
  return most;
}

at::Tensor Optimizer::make_scratch(std::int64_t rule_bytes, std::int64_t piece_bytes) const {
  if (rule_bytes + piece_bytes == 0) return {};
  return torch::empty({rule_bytes + piece_bytes}, slots_[0].parameter.options().dtype(at::kByte));
}

void Optimizer::take_step(Slot& slot, const std::optional<at::Tensor>& skip) {
  slot.undecided = slot.fresh && skip;
  slot.fresh = false;
}

bool Optimizer::skipped_first_steps() const {
  // In a dry run, `skip` has no value: steps count as done.
  return first_skip_.defined() && !first_skip_.is_meta() && first_skip_.item<float>() == 1;
}

void Optimizer::decide_first_steps() {
  if (!first_skip_.defined()) return;
  const bool skipped = skipped_first_steps();
  for (Slot& slot : slots_) {
    if (std::exchange(slot.undecided, false)) slot.fresh = skipped;
  }
  first_skip_.reset();
}

void Optimizer::make_state(const std::vector<std::size_t>& slots) {
  if (offloads_) make_pieces(slots);
  for (const std::size_t i : slots) {
    Slot& slot = slots_[i];
    for (const StatePart& part : parts(slot)) {
      if (!offloads_ || part.is_age()) slot.state.*part.tensor = zeros(slot, part);
    }
    slot.ready = true;
  }
}

void Optimizer::ask_for_gradients(std::int64_t epoch,
                                  const std::function<bool(std::string_view)>& wanted) {
  for (Slot& slot : slots_)
    slot.parameter.requires_grad_(epoch >= frozen_epochs_[slot.group] && wanted(slot.name));
}

bool Optimizer::freezes_groups() const {
  return std::ranges::any_of(frozen_epochs_, [](std::int64_t epochs) { return epochs > 0; });
}

at::Tensor Optimizer::prepare() {
  const torch::NoGradGuard no_graph;
  decide_first_steps();
  std::vector<std::size_t> fresh;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].needs_state()) fresh.push_back(i);
  }
  make_state(fresh);
  const auto largest =
      std::ranges::max_element(pieces_, {}, [](const Piece& piece) { return piece.block.bytes(); });
  return make_scratch(rule_bytes_, largest == pieces_.end() ? 0 : largest->block.bytes());
}

void Optimizer::set_rates(std::vector<Rates> rates) {
  assert(rates.size() == options_.size());
  rates_ = std::move(rates);
}

std::vector<Optimizer::Slot*> Optimizer::with_gradient(const std::vector<std::size_t>& slots) {
  std::vector<Slot*> result;
  for (const std::size_t i : slots) {
    Slot& slot = slots_[i];
    if (slot.is_kept && slot.parameter.grad().defined()) result.push_back(&slot);
  }
  return result;
}

void Optimizer::step(const std::optional<at::Tensor>& skip, std::optional<at::Tensor> divisor,
                     const at::Tensor& scratch, const std::vector<bool>& present) {
  const torch::NoGradGuard no_graph;
  decide_first_steps();
  // The fused kernels divide by a float32, and the others do not divide.
  if (divisor && (divisor->scalar_type() != torch::kFloat || rule_bytes_ > 0)) {
    at::_foreach_div_(gradients(), *divisor);
    divisor.reset();
  }
  for (Piece& piece : pieces_) update_piece(piece, scratch, rule_bytes_, skip, divisor);
  for (std::size_t group = 0; !offloads_ && group < options_.size(); ++group) {
    std::vector<std::size_t> slots;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].group == group) slots.push_back(i);
    }
    update(with_gradient(slots), scratch, skip, divisor);
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.is_kept) continue;
    if (present.empty() ? slot.parameter.grad().defined() : present[i]) take_step(slot, skip);
  }
  if (std::ranges::any_of(slots_, &Slot::undecided)) first_skip_ = *skip;
}

void Optimizer::begin_steps() {
  const torch::NoGradGuard no_graph;
  decide_first_steps();
  divide_pieces();
}

void Optimizer::step_one(std::size_t parameter, const std::optional<at::Tensor>& skip) {
  const torch::NoGradGuard no_graph;
  Slot& slot = slots_[parameter];
  if (!slot.ready) make_state({parameter});
  const std::int64_t bytes = rule_bytes({parameter});
  if (offloads_) {
    Piece& piece = pieces_[slot.piece];
    update_piece(piece, make_scratch(bytes, piece.block.bytes()), bytes, skip, {});
  } else {
    update(with_gradient({parameter}), make_scratch(bytes, 0), skip, {});
  }
  if (slot.undecided) first_skip_ = *skip;
}

void Optimizer::update(const std::vector<Slot*>& slots, const at::Tensor& scratch,
                       const std::optional<at::Tensor>& skip,
                       const std::optional<at::Tensor>& divisor) {
  assert(std::ranges::all_of(slots, &Slot::ready));
  std::vector<Slot*> whole;
  for (Slot* slot : slots) {
    if (slot->is_quantized) update_quantized(*slot, scratch, skip);
    else whole.push_back(slot);
  }
  update_whole(whole, scratch, skip, divisor);
}

void Optimizer::update_whole(const std::vector<Slot*>& slots, const at::Tensor& scratch,
                             const std::optional<at::Tensor>& skip,
                             const std::optional<at::Tensor>& divisor) {
  if (slots.empty()) return;
  const std::size_t group = slots[0]->group;
  const OptimizerOptions& rule = options_[group];
  const double rate = rates_[group].learning_rate;
  if (const auto* adam = std::get_if<AdamOptions>(&rule)) {
    step_adam(slots, *adam, rate, skip, divisor);
    return;
  }
  if (const auto* muon = std::get_if<MuonOptions>(&rule)) {
    std::vector<Slot*> matrices, others;
    for (Slot* slot : slots) (slot->is_matrix ? matrices : others).push_back(slot);
    if (!matrices.empty()) step_singly(matrices, scratch, skip);
    if (!others.empty())
      step_adam(others, adamw_of(*muon), rate * muon->adamw_factor, skip, divisor);
    return;
  }
  if (!std::holds_alternative<SgdOptions>(rule)) {
    step_singly(slots, scratch, skip);
    return;
  }
  // The first step sets the momentum to the gradient itself, so it is handled separately from
  // subsequent steps.
  std::vector<Slot*> later, fresh;
  for (Slot* slot : slots) (slot->fresh ? fresh : later).push_back(slot);
  if (!later.empty()) step_sgd(later, skip, divisor, /*fresh=*/false);
  if (!fresh.empty()) step_sgd(fresh, skip, divisor, /*fresh=*/true);
}

void Optimizer::step_sgd(const std::vector<Slot*>& slots, const std::optional<at::Tensor>& skip,
                         const std::optional<at::Tensor>& divisor, bool fresh) {
  const Rates& rates = rates_[slots[0]->group];
  const auto& options = std::get<SgdOptions>(options_[slots[0]->group]);
  std::vector<at::Tensor> parameters, gradients, momenta;
  for (Slot* slot : slots) {
    parameters.push_back(slot->parameter);
    gradients.push_back(slot->parameter.grad());
    if (slot->state.momentum.defined()) momenta.push_back(slot->state.momentum);
    take_step(*slot, skip);
  }
  at::_fused_sgd_(parameters, gradients, momenta, options.weight_decay,
                  rates.momentum.value_or(options.momentum), rates.learning_rate, options.dampening,
                  options.nesterov, /*maximize=*/false, /*is_first_step=*/fresh, divisor, skip);
}

void Optimizer::step_singly(const std::vector<Slot*>& slots, const at::Tensor& scratch,
                            const std::optional<at::Tensor>& skip) {
  const std::size_t group = slots[0]->group;
  const std::int64_t before = StepScalars::bytes();
  const StepScalars scalars(scratch.narrow(0, 0, before), skip ? &*skip : nullptr);
  for (Slot* slot : slots) {
    at::Tensor gradient = slot->parameter.grad();
    if (scalars.skipped().defined()) gradient.masked_fill_(scalars.skipped(), 0);
    const std::vector<BlockPart> needed =
        scratch_of(options_[group], slot->parameter, slot->is_matrix);
    const at::Tensor own = scratch.narrow(0, before, bytes_of(needed));
    const SingleStep one{slot->parameter,
                         gradient,
                         slot->state,
                         rates_[group].learning_rate,
                         rates_[group].momentum,
                         scalars,
                         parts_within(own, needed)};
    const auto step = [&]<typename Rule>(const Rule& rule) {
      if constexpr (requires { stages::step_singly(rule, one); }) stages::step_singly(rule, one);
    };
    std::visit(step, options_[group]);
    take_step(*slot, skip);
  }
}

void Optimizer::step_adam(const std::vector<Slot*>& slots, const AdamOptions& options,
                          double learning_rate, const std::optional<at::Tensor>& skip,
                          const std::optional<at::Tensor>& divisor) {
  const Rates& rates = rates_[slots[0]->group];
  std::vector<at::Tensor> parameters, gradients, means, squares, maxima, ages;
  for (Slot* slot : slots) {
    parameters.push_back(slot->parameter);
    gradients.push_back(slot->parameter.grad());
    means.push_back(slot->state.mean);
    squares.push_back(slot->state.square);
    if (options.amsgrad) maxima.push_back(slot->state.maximum);
    ages.push_back(slot->state.age);
    take_step(*slot, skip);
  }
  at::_foreach_add_(ages, one_);
  const double beta1 = rates.momentum.value_or(options.beta1);
  const auto update = [&](auto kernel) {
    kernel(parameters, gradients, means, squares, maxima, ages, learning_rate, beta1, options.beta2,
           options.weight_decay, options.epsilon, options.amsgrad,
           /*maximize=*/false, divisor, skip);
  };
  const auto adamw = [](auto&&... arguments) { at::_fused_adamw_(arguments...); };
  const auto adam = [](auto&&... arguments) { at::_fused_adam_(arguments...); };
  if (options.decoupled) update(adamw);
  else update(adam);
  if (skip) at::_foreach_sub_(ages, std::vector<at::Tensor>(ages.size(), *skip));
}

std::vector<at::Tensor> Optimizer::parameters() const {
  std::vector<at::Tensor> result;
  for (const Slot& slot : slots_) result.push_back(slot.parameter);
  return result;
}

NamedTensors Optimizer::named_parameters() const {
  std::vector<NamedTensors::Item> items;
  for (const Slot& slot : slots_) items.emplace_back(slot.name, slot.parameter);
  return NamedTensors(std::move(items));
}

std::vector<at::Tensor> Optimizer::gradients() const {
  std::vector<at::Tensor> result;
  for (const Slot& slot : slots_) {
    if (slot.parameter.grad().defined()) result.push_back(slot.parameter.grad());
  }
  return result;
}

NamedTensors Optimizer::state_of(bool only_ages, bool kept) const {
  std::vector<NamedTensors::Item> items;
  const bool skipped = skipped_first_steps();
  for (const Slot& slot : slots_) {
    // Momentum not yet set by a step is unused: the first gradient replaces it.
    if (slot.fresh || (slot.undecided && skipped) || slot.is_kept != kept) continue;
    for (const StatePart& part : parts(slot)) {
      if (only_ages && !part.is_age()) continue;
      items.emplace_back(slot.name + "." + part.name,
                         kept ? slot.state.*part.tensor : outline(slot, part));
    }
  }
  return NamedTensors(std::move(items));
}

NamedTensors Optimizer::state() const {
  for (const Piece& piece : pieces_) piece.block.wait();
  return state_of(/*only_ages=*/false, /*kept=*/true);
}

NamedTensors Optimizer::state_elsewhere() const {
  return state_of(/*only_ages=*/false, /*kept=*/false);
}

std::vector<at::Tensor> Optimizer::parameters_elsewhere() const {
  std::vector<at::Tensor> result;
  for (const Slot& slot : slots_) {
    if (!slot.is_kept && !parts(slot).empty()) result.push_back(slot.parameter);
  }
  return result;
}

std::optional<int> Optimizer::keeper_of(std::string_view name) const {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  const auto slot = std::ranges::find(slots_, name.substr(0, dot), &Slot::name);
  if (slot == slots_.end()) return {};
  const auto is_named = [&](const StatePart& part) { return name.substr(dot + 1) == part.name; };
  if (std::ranges::none_of(parts(*slot), is_named)) return {};
  if (shard_.is_whole()) return shard_.rank;
  return shard_.owners[static_cast<std::size_t>(slot - slots_.begin())];
}

NamedTensors Optimizer::state_on_device() const {
  return state_of(/*only_ages=*/offloads_, /*kept=*/true);
}

void Optimizer::load_state(const NamedTensors& state) {
  const torch::NoGradGuard no_graph;
  std::map<std::string, at::Tensor, std::less<>> given(state.begin(), state.end());
  const auto refuse = [](const std::string& what) {
    throw std::invalid_argument("the optimizer's state has " + what);
  };
  std::vector<Slot> fresh;
  std::vector<std::size_t> with_state;
  for (const Slot& slot : slots_) {
    fresh.push_back({.name = slot.name,
                     .group = slot.group,
                     .parameter = slot.parameter,
                     .is_matrix = slot.is_matrix,
                     .is_quantized = slot.is_quantized,
                     .is_kept = slot.is_kept});
    const std::vector<StatePart> all = parts(slot);
    const auto missing = [&](const StatePart& part) {
      return !given.contains(slot.name + "." + part.name);
    };
    if (std::ranges::all_of(all, missing)) continue;
    for (const StatePart& part : all) {
      const std::string name = slot.name + "." + part.name;
      if (missing(part)) refuse("no '" + name + "'");
      const at::Tensor& tensor = given.at(name);
      const at::Tensor right = outline(slot, part);
      if (tensor.sizes() != right.sizes())
        refuse("a '" + name + "' of shape " + c10::str(tensor.sizes()) + ", not " +
               c10::str(right.sizes()));
      if (tensor.scalar_type() != right.scalar_type()) {
        refuse("a '" + name + "' of type " + c10::toString(tensor.scalar_type()) + ", not " +
               c10::toString(right.scalar_type()));
      }
    }
    for (const StatePart& part : all) given.erase(slot.name + "." + part.name);
    if (slot.is_kept) with_state.push_back(fresh.size() - 1);
    fresh.back().fresh = false;
  }
  if (!given.empty()) refuse("a '" + given.begin()->first + "' that belongs to no parameter");
  // Free the old state first: there may not be enough memory for both.
  slots_ = std::move(fresh);
  pieces_.clear();
  first_skip_.reset();
  make_state(with_state);
  for (const std::size_t i : with_state) {
    for (const StatePart& part : parts(slots_[i]))
      (slots_[i].state.*part.tensor).copy_(state.at(slots_[i].name + "." + part.name));
  }
}

}  // namespace stages
