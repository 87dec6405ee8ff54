#include "stages/plan/operations.h"

#include <memory>
#include <stdexcept>
#include <string_view>

#include <ATen/record_function.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include "stages/tensor/loss_term.h"
#include "stages/tensor/module_names.h"

namespace stages {
namespace {

thread_local ScopedOperations* operations_of_thread = nullptr;

/// The engine's step for a node is called "autograd::engine::evaluate_function: AddmmBackward0".
constexpr std::string_view kEngine = "autograd::engine::evaluate_function: ";

/// Where the two factors stand among the arguments of a product; 0: it is none.
int first_factor(std::string_view name) {
  if (name == "aten::mm" || name == "aten::bmm" || name == "aten::mv" || name == "aten::dot") return 1;
  if (name == "aten::addmm" || name == "aten::addmm_" || name == "aten::baddbmm" || name == "aten::baddbmm_" ||
      name == "aten::addmv" || name == "aten::addmv_")
    return 2;
  return 0;
}

/// Each number of the first factor is multiplied with a row of the second.
double product_flops(const at::Tensor& first, const at::Tensor& second) {
  const double row = first.dim() > 1 && second.dim() > 1 ? static_cast<double>(second.size(-1)) : 1;
  return 2.0 * static_cast<double>(first.numel()) * row;
}

/// "QuickGeluBackward" of "torch::autograd::CppNode<stages::(anonymous namespace)::QuickGelu>", a function of our own;
/// "LinearBackward" of one called LinearFunction. Any other name as it is.
std::string short_name(std::string_view name) {
  constexpr std::string_view kOwn = "torch::autograd::CppNode<", kFunction = "Function";
  if (!name.starts_with(kOwn)) return std::string(name);
  name.remove_suffix(1);
  name.remove_prefix(name.rfind(':') + 1);
  if (name.ends_with(kFunction)) name.remove_suffix(kFunction.size());
  return std::string(name) + "Backward";
}

}  // namespace

std::string running_purpose() {
  std::string path = running_path();
  if (path.empty() && running_loss_term) return running_loss_term;
  return path;
}

struct ScopedOperations::Callbacks {
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    ScopedOperations* const self = operations_of_thread;
    if (!self) return nullptr;
    const std::string_view name = function.name();
    const bool is_engine = name.starts_with(kEngine);
    if (self->levels_.empty()) {
      self->outermost_ = short_name(is_engine ? name.substr(kEngine.size()) : name);
      ++self->number_;
    }
    if (!is_engine) self->note_purpose(function);
    if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
      self->levels_.push_back(Level::kNode);
      return nullptr;
    }
    const bool is_within =
        !self->levels_.empty() && self->levels_.back() != Level::kEngine && self->levels_.back() != Level::kNode;
    if (!is_engine && !is_within) ++self->launches_;
    const bool is_sum = name == "aten::add" && !self->levels_.empty() && self->levels_.back() == Level::kEngine;
    self->levels_.push_back(is_engine ? Level::kEngine : is_sum ? Level::kSum : Level::kOperation);
    if (is_sum) self->observer_.sum_begins(function.inputs()[0].toTensor());
    if (const int factor = first_factor(name)) {
      const auto inputs = function.inputs();
      const auto at = [&](int i) { return inputs[static_cast<std::size_t>(i)].toTensor(); };
      self->flops_ += product_flops(at(factor - 1), at(factor));
    }
    return nullptr;
  }

  static void end(const at::RecordFunction& function, at::ObserverContext*) {
    ScopedOperations* const self = operations_of_thread;
    if (!self || self->levels_.empty()) return;
    const Level level = self->levels_.back();
    self->levels_.pop_back();
    if (level == Level::kOperation || level == Level::kSum) self->show(function, level == Level::kSum);
    if (!self->levels_.empty()) return;
    self->outermost_.clear();
    self->purpose_of_node_.clear();
  }
};

/// An operation is told the number that the next node will have, so that the last one to be told it has made that node.
void ScopedOperations::note_purpose(const at::RecordFunction& function) {
  const std::int64_t number = function.seqNr();
  if (number < 0) return;
  if (function.scope() == at::RecordScope::BACKWARD_FUNCTION) {
    const auto found = purposes_.find(number);
    purpose_of_node_ = found == purposes_.end() ? "" : found->second;
  } else if (at::GradMode::is_enabled()) {
    purposes_[number] = running_purpose();
  }
}

std::string ScopedOperations::purpose() const {
  std::string running = running_purpose();
  return running.empty() ? purpose_of_node_ : running;
}

void ScopedOperations::show(const at::RecordFunction& function, bool is_sum) {
  const auto show = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    if (is_sum) observer_.sum_ends(tensor);
    else observer_.result(tensor);
  };
  for (const c10::IValue& output : function.outputs()) {
    if (output.isTensor()) show(output.toTensor());
    if (!output.isTensorList()) continue;
    for (const at::Tensor& tensor : output.toTensorVector()) show(tensor);
  }
}

ScopedOperations::ScopedOperations(Observer& observer) : observer_(observer) {
  if (operations_of_thread) throw std::logic_error("operations are watched on this thread already");
  operations_of_thread = this;
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&Callbacks::begin, &Callbacks::end)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

ScopedOperations::~ScopedOperations() {
  at::removeCallback(handle_);
  operations_of_thread = nullptr;
}

}  // namespace stages
