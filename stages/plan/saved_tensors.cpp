#include "stages/plan/saved_tensors.h"

#include <memory>
#include <utility>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/autograd.h>

namespace stages {
namespace {

thread_local const std::function<void(const at::Tensor&)>* show_on_thread = nullptr;

/// Keeps the tensor's memory, as autograd does without hooks; not its history, of which the graph would then hold
/// itself.
class Shown final : public torch::autograd::SavedVariableHooks {
 public:
  void call_pack_hook(const at::Tensor& tensor) override {
    kept_ = tensor.tensor_data();
    if (show_on_thread) (*show_on_thread)(tensor);
  }
  at::Tensor call_unpack_hook() override { return kept_; }

 private:
  at::Tensor kept_;
};

/// There are no such hooks in C++ but what an engine gives.
class ShowingEngine final : public torch::autograd::Engine {
 public:
  static torch::autograd::Engine& instance() {
    static auto* const engine = new ShowingEngine;  // never destroyed: its threads outlive main()
    return *engine;
  }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return show_on_thread ? std::make_unique<Shown>() : nullptr;
  }
};

}  // namespace

ScopedSavedTensors::ScopedSavedTensors(std::function<void(const at::Tensor&)> show)
    : show_(std::move(show)), before_(show_on_thread) {
  [[maybe_unused]] static const bool is_installed = [] {
    torch::autograd::set_default_engine_stub(ShowingEngine::instance);
    return true;
  }();
  show_on_thread = &show_;
}

ScopedSavedTensors::~ScopedSavedTensors() { show_on_thread = before_; }

}  // namespace stages
