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

namespace stages {

Optimizer::Optimizer(const std::vector<ParameterGroup>& groups, bool offloads, StateShard shard)
    : shard_(std::move(shard)) {
  assert(!groups.empty());
  for (const ParameterGroup& group : groups) {
    for (const auto& [name, tensor] : group.parameters) {
      slots_.push_back({.name = name, .group = names_.size(), .parameter = tensor});
      slots_.back().is_kept = shard_.keeps(slots_.size() - 1);
    }
    names_.push_back(group.name);
    options_.push_back(group.optimizer);
    rates_.push_back({.learning_rate = learning_rate(group.optimizer), .momentum = {}});
  }
  if (!slots_.empty()) one_ = torch::ones({}, slots_[0].parameter.options().dtype(torch::kFloat));
  offloads_ = offloads && !movable_parts().empty();
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

std::vector<Optimizer::Part> Optimizer::parts() const {
  if (const auto* sgd = std::get_if<SgdOptions>(&options_[0])) {
    return sgd->momentum == 0 ? std::vector<Part>{}
                              : std::vector<Part>{{"momentum", &Slot::momentum}};
  }
  std::vector<Part> result = {{"mean", &Slot::mean}, {"square", &Slot::square}};
  if (std::get<AdamOptions>(options_[0]).amsgrad) result.emplace_back("maximum", &Slot::maximum);
  result.emplace_back("age", &Slot::age);
  return result;
}

std::vector<Optimizer::Part> Optimizer::movable_parts() const {
  std::vector<Part> result = parts();
  std::erase_if(result, [](const Part& part) { return part.second == &Slot::age; });
  return result;
}

at::Tensor Optimizer::zeros(const Slot& slot, const Part& part) {
  if (part.second == &Slot::age)
    return torch::zeros({}, slot.parameter.options().dtype(torch::kFloat));
  return torch::zeros_like(slot.parameter, torch::MemoryFormat::Preserve);
}

at::Tensor Optimizer::outline(const Slot& slot, const Part& part) {
  const bool is_age = part.second == &Slot::age;
  return torch::empty(
      is_age ? at::IntArrayRef() : slot.parameter.sizes(),
      at::TensorOptions(at::kMeta).dtype(is_age ? at::kFloat : slot.parameter.scalar_type()));
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
    for (const Part& part : parts()) {
      if (!offloads_ || part.second == &Slot::age) slot.*part.second = zeros(slot, part);
    }
    slot.ready = true;
  }
}

void Optimizer::ask_for_gradients(const std::function<bool(std::string_view)>& wanted) {
  for (Slot& slot : slots_) slot.parameter.requires_grad_(wanted(slot.name));
}

void Optimizer::make_pieces(const std::vector<std::size_t>& slots) {
  std::size_t most = 0, bytes = 0;
  for (const Slot& slot : slots_) most = std::max(most, slot.parameter.nbytes());
  std::vector<std::size_t> piece;
  for (const std::size_t i : slots) {
    const Slot& slot = slots_[i];
    const bool is_alike =
        piece.empty() || (slots_[piece[0]].group == slot.group &&
                          slots_[piece[0]].parameter.scalar_type() == slot.parameter.scalar_type());
    if (!is_alike || bytes + slot.parameter.nbytes() > most) {
      if (!piece.empty()) make_piece(std::exchange(piece, {}));
      bytes = 0;
    }
    piece.push_back(i);
    bytes += slot.parameter.nbytes();
  }
  if (!piece.empty()) make_piece(std::move(piece));
}

void Optimizer::make_piece(std::vector<std::size_t> slots) {
  const std::vector<Part> moved = movable_parts();
  std::vector<at::Tensor> like;
  for (const std::size_t i : slots) like.insert(like.end(), moved.size(), slots_[i].parameter);
  HostBlock block(like);
  const std::vector<at::Tensor> tensors = block.tensors();
  std::size_t next = 0;
  for (const std::size_t i : slots) {
    for (const Part& part : moved) slots_[i].*part.second = tensors[next++];
    slots_[i].piece = pieces_.size();
  }
  pieces_.push_back({std::move(block), std::move(slots)});
}

void Optimizer::divide_pieces() {
  const auto is_divided = [](const Piece& piece) { return piece.slots.size() == 1; };
  if (std::ranges::all_of(pieces_, is_divided)) return;
  const std::vector<Piece> whole = std::exchange(pieces_, {});
  for (const Piece& piece : whole) {
    piece.block.wait();
    for (const std::size_t i : piece.slots) {
      const Slot before = slots_[i];
      make_piece({i});
      for (const Part& part : movable_parts()) (slots_[i].*part.second).copy_(before.*part.second);
    }
  }
}

at::Tensor Optimizer::prepare() {
  const torch::NoGradGuard no_graph;
  decide_first_steps();
  std::vector<std::size_t> fresh;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Slot& slot = slots_[i];
    if (slot.is_kept && !slot.ready && slot.parameter.grad().defined()) fresh.push_back(i);
  }
  make_state(fresh);
  const auto largest =
      std::ranges::max_element(pieces_, {}, [](const Piece& piece) { return piece.block.bytes(); });
  return largest == pieces_.end() ? at::Tensor() : largest->block.scratch();
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
                     const at::Tensor& scratch) {
  const torch::NoGradGuard no_graph;
  decide_first_steps();
  if (divisor && divisor->scalar_type() != torch::kFloat) {  // the kernels require a float32
    at::_foreach_div_(gradients(), *divisor);
    divisor.reset();
  }
  for (Piece& piece : pieces_) update_piece(piece, scratch, skip, divisor);
  for (std::size_t group = 0; !offloads_ && group < options_.size(); ++group) {
    std::vector<std::size_t> slots;
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].group == group) slots.push_back(i);
    }
    update(with_gradient(slots), skip, divisor);
  }
  for (Slot& slot : slots_) {
    if (!slot.is_kept && slot.parameter.grad().defined()) take_step(slot, skip);
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
  if (offloads_) update_piece(pieces_[slot.piece], pieces_[slot.piece].block.scratch(), skip, {});
  else update(with_gradient({parameter}), skip, {});
  if (slot.undecided) first_skip_ = *skip;
}

void Optimizer::update_piece(Piece& piece, const at::Tensor& scratch,
                             const std::optional<at::Tensor>& skip,
                             const std::optional<at::Tensor>& divisor) {
  const std::vector<Slot*> slots = with_gradient(piece.slots);
  if (slots.empty()) return;
  std::vector<at::Tensor> others = piece.block.bring(scratch);
  const std::vector<Part> moved = movable_parts();
  const auto swap = [&] {
    auto other = others.begin();
    for (const std::size_t i : piece.slots) {
      for (const Part& part : moved) std::swap(slots_[i].*part.second, *other++);
    }
  };
  swap();
  update(slots, skip, divisor);
  swap();
  piece.block.put_back(scratch);
}

void Optimizer::update(const std::vector<Slot*>& slots, const std::optional<at::Tensor>& skip,
                       const std::optional<at::Tensor>& divisor) {
  if (slots.empty()) return;
  assert(std::ranges::all_of(slots, &Slot::ready));
  if (std::holds_alternative<AdamOptions>(options_[slots[0]->group])) {
    step_adam(slots, skip, divisor);
    return;
  }
  // The first step sets the momentum to the gradient itself, so it is handled separately from later
  // steps.
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
    if (slot->momentum.defined()) momenta.push_back(slot->momentum);
    take_step(*slot, skip);
  }
  at::_fused_sgd_(parameters, gradients, momenta, options.weight_decay,
                  rates.momentum.value_or(options.momentum), rates.learning_rate, options.dampening,
                  options.nesterov, /*maximize=*/false, /*is_first_step=*/fresh, divisor, skip);
}

void Optimizer::step_adam(const std::vector<Slot*>& slots, const std::optional<at::Tensor>& skip,
                          const std::optional<at::Tensor>& divisor) {
  const Rates& rates = rates_[slots[0]->group];
  const auto& options = std::get<AdamOptions>(options_[slots[0]->group]);
  std::vector<at::Tensor> parameters, gradients, means, squares, maxima, ages;
  for (Slot* slot : slots) {
    parameters.push_back(slot->parameter);
    gradients.push_back(slot->parameter.grad());
    means.push_back(slot->mean);
    squares.push_back(slot->square);
    if (options.amsgrad) maxima.push_back(slot->maximum);
    ages.push_back(slot->age);
    take_step(*slot, skip);
  }
  at::_foreach_add_(ages, one_);
  const double beta1 = rates.momentum.value_or(options.beta1);
  const auto update = [&](auto kernel) {
    kernel(parameters, gradients, means, squares, maxima, ages, rates.learning_rate, beta1,
           options.beta2, options.weight_decay, options.epsilon, options.amsgrad,
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

std::vector<at::Tensor> Optimizer::gradients() const {
  std::vector<at::Tensor> result;
  for (const Slot& slot : slots_) {
    if (slot.parameter.grad().defined()) result.push_back(slot.parameter.grad());
  }
  return result;
}

NamedTensors Optimizer::state_of(const std::vector<Part>& parts, bool kept) const {
  std::vector<NamedTensors::Item> items;
  const bool skipped = skipped_first_steps();
  for (const Slot& slot : slots_) {
    // Momentum that no step has set is unused: the first gradient replaces it.
    if (slot.fresh || (slot.undecided && skipped) || slot.is_kept != kept) continue;
    for (const Part& part : parts)
      items.emplace_back(slot.name + "." + part.first,
                         kept ? slot.*part.second : outline(slot, part));
  }
  return NamedTensors(std::move(items));
}

NamedTensors Optimizer::state() const {
  for (const Piece& piece : pieces_) piece.block.wait();
  return state_of(parts(), /*kept=*/true);
}

NamedTensors Optimizer::state_elsewhere() const { return state_of(parts(), /*kept=*/false); }

std::vector<at::Tensor> Optimizer::parameters_elsewhere() const {
  std::vector<at::Tensor> result;
  if (parts().empty()) return result;
  for (const Slot& slot : slots_) {
    if (!slot.is_kept) result.push_back(slot.parameter);
  }
  return result;
}

std::optional<int> Optimizer::keeper_of(std::string_view name) const {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::vector<Part> all = parts();
  const auto slot = std::ranges::find(slots_, name.substr(0, dot), &Slot::name);
  const auto part = std::ranges::find(all, name.substr(dot + 1), &Part::first);
  if (slot == slots_.end() || part == all.end()) return {};
  if (shard_.is_whole()) return shard_.rank;
  return shard_.owners[static_cast<std::size_t>(slot - slots_.begin())];
}

NamedTensors Optimizer::state_on_device() const {
  std::vector<Part> there = parts();
  if (offloads_) std::erase_if(there, [](const Part& part) { return part.second != &Slot::age; });
  return state_of(there, /*kept=*/true);
}

std::int64_t Optimizer::offloaded_bytes() const {
  std::int64_t bytes = 0;
  for (const Piece& piece : pieces_) bytes += piece.block.bytes();
  return bytes;
}

void Optimizer::load_state(const NamedTensors& state) {
  const torch::NoGradGuard no_graph;
  std::map<std::string, at::Tensor, std::less<>> given(state.begin(), state.end());
  const auto refuse = [](const std::string& what) {
    throw std::invalid_argument("the optimizer's state has " + what);
  };
  const std::vector<Part> all = parts();
  std::vector<Slot> fresh;
  std::vector<std::size_t> with_state;
  for (const Slot& slot : slots_) {
    fresh.push_back({.name = slot.name,
                     .group = slot.group,
                     .parameter = slot.parameter,
                     .is_kept = slot.is_kept});
    const auto missing = [&](const Part& part) {
      return !given.contains(slot.name + "." + part.first);
    };
    if (std::ranges::all_of(all, missing)) continue;
    for (const Part& part : all) {
      const std::string name = slot.name + "." + part.first;
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
    for (const Part& part : all) given.erase(slot.name + "." + part.first);
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
    for (const Part& part : all)
      (slots_[i].*part.second).copy_(state.at(slots_[i].name + "." + part.first));
  }
}

}  // namespace stages
