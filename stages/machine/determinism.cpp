#include "stages/machine/determinism.h"

#include <torch/types.h>

#include <cstdlib>
#include <set>

namespace stages {
namespace {

using runner::Determinism;

constexpr const char* kWorkspace = "CUBLAS_WORKSPACE_CONFIG";

}  // namespace

struct ScopedDeterminism::State : c10::WarningHandler {
  explicit State(std::function<void(const std::string&)> tell)
      : tell(std::move(tell)), previous(c10::WarningUtils::get_warning_handler()) {
    c10::WarningUtils::set_warning_handler(this);
  }
  ~State() override {
    at::Context& context = at::globalContext();
    context.setDeterministicAlgorithms(algorithms, warns);
    context.setDeterministicCuDNN(cudnn);
    context.setDeterministicMkldnn(mkldnn);
    context.setBenchmarkCuDNN(benchmark);
    c10::WarningUtils::set_warning_handler(previous);
  }

  void process(const c10::Warning& warning) override {
    const auto operation = runner::nondeterministic_operation(warning.msg());
    if (!operation) return previous->process(warning);
    if (told.insert(*operation).second) tell(*operation);
  }

  const std::function<void(const std::string&)> tell;
  c10::WarningHandler* const previous;
  std::set<std::string> told;
  const bool algorithms = at::globalContext().deterministicAlgorithms();
  const bool warns = at::globalContext().deterministicAlgorithmsWarnOnly();
  const bool cudnn = at::globalContext().deterministicCuDNN();
  const bool mkldnn = at::globalContext().deterministicMkldnn();
  const bool benchmark = at::globalContext().benchmarkCuDNN();
};

ScopedDeterminism::ScopedDeterminism(Determinism determinism,
                                     std::function<void(const std::string&)> tell)
    : state_(std::make_unique<State>(std::move(tell))) {
  if (determinism == Determinism::kOff) return;
  at::Context& context = at::globalContext();
  // Also fills uninitialized memory, so that reading it yields the same values every time.
  context.setDeterministicAlgorithms(true, determinism == Determinism::kWarn);
  context.setDeterministicCuDNN(true);
  context.setDeterministicMkldnn(true);
  context.setBenchmarkCuDNN(false);
}

ScopedDeterminism::~ScopedDeterminism() = default;

CublasWorkspace use_cublas_workspace(Determinism determinism) {
  if (determinism == Determinism::kOff) return {};
  const char* users = std::getenv(kWorkspace);
  if (!users) {
    const char* value = ":4096:8";
    setenv(kWorkspace, value, /*overwrite=*/1);
    return {.set = value, .complaint = {}};
  }
  const std::string_view value = users;
  if (value == ":4096:8" || value == ":16:8") return {};
  runner::Diagnostic complaint{
      runner::ErrorCode::kNotDeterministic,
      {},
      "/determinism",
      "with " + std::string(kWorkspace) + "='" + users + "' cuBLAS is not deterministic",
      "unset it, or set it to :4096:8 or :16:8"};
  if (determinism == Determinism::kWarn) complaint.severity = runner::Severity::kWarning;
  else complaint.help += "; or write determinism: warn";
  return {.set = {}, .complaint = std::move(complaint)};
}

}  // namespace stages
