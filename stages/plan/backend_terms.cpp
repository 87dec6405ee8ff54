#include "stages/plan/backend_terms.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace stages {
namespace {

constexpr std::int64_t kKiB = 1024, kMebibyte = 1024 * kKiB;

/// A number for the GPUs whose name has one of the words, or for all where there are none. The first that fits counts.
struct Term {
  std::string_view name;
  std::vector<std::string_view> words;
  std::int64_t bytes;
  const char* source;
};

const std::vector<Term>& cuda_terms() {
  static const std::vector<Term> terms = {
      {kContextTerm,
       {},
       400 * kMebibyte,
       "kernels loaded lazily; https://github.com/pytorch/pytorch/issues/109888 says around 400 MB, older reports 290 "
       "to 670"},
      {"cublas_workspace",
       {"h100", "h200", "h800", "h20", "gh200", "b100", "b200", "gb200", "b300", "gb300", "blackwell", "rtx 50"},
       32 * kMebibyte,
       "LibTorch takes 32 MiB a handle and stream on Hopper and Blackwell"},
      {"cublas_workspace", {}, 8320 * kKiB, "LibTorch takes :4096:2:16:8 a handle and stream before Hopper"},
      {"cublaslt_workspace", {}, 1 * kMebibyte, "LibTorch's default of CUBLASLT_WORKSPACE_SIZE"},
      {"cudnn_workspace", {}, 0, "not known: cuDNN takes what its choice of a convolution needs"},
  };
  return terms;
}

bool fits(const Term& term, const std::string& model) {
  const auto is_in = [&](std::string_view word) { return model.find(word) != std::string::npos; };
  return term.words.empty() || std::ranges::any_of(term.words, is_in);
}

}  // namespace

std::string_view backend_terms_version() { return "terms-2, LibTorch 2.11"; }

std::vector<runner::NamedBytes> backend_terms(const Backend& backend) {
  std::vector<runner::NamedBytes> result;
  if (backend.device != at::kCUDA) return result;
  std::string model = backend.model;
  std::ranges::transform(model, model.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Term& term : cuda_terms()) {
    const auto is_same = [&](const runner::NamedBytes& taken) { return taken.name == term.name; };
    if (!fits(term, model) || std::ranges::any_of(result, is_same)) continue;
    result.push_back({.name = std::string(term.name), .bytes = term.bytes, .note = term.source});
  }
  return result;
}

}  // namespace stages
