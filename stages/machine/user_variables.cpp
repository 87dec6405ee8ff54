#include "stages/machine/user_variables.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <span>
#include <string_view>
#include <utility>

namespace stages {
namespace {

using runner::Diagnostic;
using runner::ErrorCode;

constexpr int kMostThreads = 1024;

/// The values accepted by oneDNN 3 in LibTorch 2.11, in upper or lower case; see "CPU dispatcher
/// control" in its guide.
constexpr std::array<std::string_view, 18> kOneDnnSets = {"DEFAULT",
                                                          "ALL",
                                                          "SSE41",
                                                          "AVX",
                                                          "AVX2",
                                                          "AVX2_VNNI",
                                                          "AVX2_VNNI_2",
                                                          "AVX512_CORE",
                                                          "AVX512_CORE_VNNI",
                                                          "AVX512_CORE_BF16",
                                                          "AVX512_CORE_FP16",
                                                          "AVX512_CORE_AMX",
                                                          "AVX512_CORE_AMX_FP16",
                                                          "AVX10_1_512",
                                                          "AVX10_1_512_AMX",
                                                          "AVX10_1_512_AMX_FP16",
                                                          "AVX10_2_512",
                                                          "AVX10_2_512_AMX_2"};
#if defined(__x86_64__)
constexpr std::array<std::string_view, 3> kTorchSets = {"default", "avx2", "avx512"};
#endif

std::string capitals(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

/// Returns "A, B or C".
std::string choice(std::span<const std::string_view> words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + std::string(words[i]);
  return text;
}

Diagnostic unknown_value(const std::string& name, const std::string& value, const std::string& what,
                         const std::string& choices) {
  return {ErrorCode::kUsage,
          {},
          "",
          "the environment variable " + name + " is '" + value + "', which is " + what,
          "unset it, or set it to " + choices};
}

}  // namespace

std::optional<std::string> user_variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::optional<int> threads_in(const std::string& value) {
  const std::string first = value.substr(0, value.find(','));
  int number = 0;
  const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), number);
  const bool is_number = error == std::errc() && end == first.data() + first.size();
  return is_number && number >= 1 && number <= kMostThreads ? std::optional(number) : std::nullopt;
}

runner::Diagnostics check_user_variables(std::optional<int> threads, const UserVariable& variable) {
  runner::Diagnostics found;
  for (const char* const name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}) {
    const auto value = variable(name);
    if (!value || value->empty()) continue;
    const auto request = threads_in(*value);
    if (!request) {
      found.push_back(
          unknown_value(name, *value, "not a number of threads", "a number from 1 to 1024"));
    } else if (threads && *request != *threads) {
      found.push_back({ErrorCode::kOptionConflict,
                       {},
                       "/threads",
                       std::string(name) + "=" + *value + " is ignored: tensor operations use " +
                           std::to_string(*threads) + (*threads == 1 ? " thread" : " threads"),
                       "to use that number, set threads=" + std::to_string(*request),
                       {},
                       runner::Severity::kWarning});
    }
  }
  for (const char* const name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {
    const auto value = variable(name);
    if (value && !value->empty() && !std::ranges::count(kOneDnnSets, capitals(*value)))
      found.push_back(unknown_value(name, *value, "not an instruction set that oneDNN knows",
                                    choice(kOneDnnSets)));
  }
#if defined(__x86_64__)
  if (const auto value = variable("ATEN_CPU_CAPABILITY");
      value && !value->empty() && !std::ranges::count(kTorchSets, *value))
    found.push_back(unknown_value("ATEN_CPU_CAPABILITY", *value,
                                  "not an instruction set that LibTorch knows",
                                  choice(kTorchSets)));
#endif
  return found;
}

runner::Diagnostics refused_user_variables(int threads,
                                           const std::function<void(std::string_view line)>& say) {
  runner::Diagnostics errors;
  for (Diagnostic& found : check_user_variables(threads)) {
    if (found.severity == runner::Severity::kError) errors.push_back(std::move(found));
    else say(found.message);
  }
  return errors;
}

}  // namespace stages
