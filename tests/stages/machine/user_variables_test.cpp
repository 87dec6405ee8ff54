#include "stages/machine/user_variables.h"

#include <map>

#include <gtest/gtest.h>

namespace stages {
namespace {

/// Returns the diagnostics for these variables, one per line.
std::string said_of(const std::map<std::string, std::string>& variables,
                    std::optional<int> threads = 2) {
  std::string text;
  for (const auto& found :
       check_user_variables(threads, [&](const char* name) -> std::optional<std::string> {
         const auto at = variables.find(name);
         return at == variables.end() ? std::nullopt : std::optional(at->second);
       })) {
    text += (found.severity == runner::Severity::kError ? "error " : "warning ") +
            runner::name(found.code) + ": " + found.message + "; " + found.help + "\n";
  }
  return text;
}

TEST(UserVariables, ThreadCountsAreParsed) {
  EXPECT_EQ(threads_in("1"), 1);
  EXPECT_EQ(threads_in("1024"), 1024);
  EXPECT_EQ(threads_in("4,2"), 4);
  for (const char* none :
       {"", "0", "-2", "1025", "3x", "x", " 3", "2.5", ",2", "99999999999999999999"})
    EXPECT_EQ(threads_in(none), std::nullopt) << none;
}

TEST(UserVariables, RespectedVariablesAreNotReported) {
  EXPECT_EQ(said_of({}), "");
  EXPECT_EQ(said_of({{"OMP_NUM_THREADS", "2"}, {"MKL_NUM_THREADS", "2"}}), "");
  EXPECT_EQ(said_of({{"OMP_NUM_THREADS", "3"}}, std::nullopt), "");
  EXPECT_EQ(
      said_of({{"OMP_NUM_THREADS", ""}, {"ONEDNN_MAX_CPU_ISA", ""}, {"ATEN_CPU_CAPABILITY", ""}}),
      "");
  EXPECT_EQ(said_of({{"ONEDNN_MAX_CPU_ISA", "avx2"}, {"ATEN_CPU_CAPABILITY", "avx2"}}), "");
  EXPECT_EQ(said_of({{"DNNL_MAX_CPU_ISA", "AVX512_CORE_BF16"}}), "");
}

TEST(UserVariables, OverriddenVariablesCauseWarnings) {
  EXPECT_EQ(said_of({{"OMP_NUM_THREADS", "3"}}),
            "warning E0314: OMP_NUM_THREADS=3 is ignored: tensor operations use 2 threads; to use "
            "that number, set threads=3\n");
  EXPECT_EQ(said_of({{"MKL_NUM_THREADS", "4"}}, 1),
            "warning E0314: MKL_NUM_THREADS=4 is ignored: tensor operations use 1 thread; to use "
            "that number, set threads=4\n");
}

TEST(UserVariables, InvalidVariablesAreReportedTogether) {
  EXPECT_EQ(
      said_of({{"OMP_NUM_THREADS", "abc"},
               {"ONEDNN_MAX_CPU_ISA", "AVX3"},
               {"ATEN_CPU_CAPABILITY", "AVX2"}}),
      "error E0501: the environment variable OMP_NUM_THREADS is 'abc', which is not a number of "
      "threads; unset it, or set it to a number from 1 to 1024\n"
      "error E0501: the environment variable ONEDNN_MAX_CPU_ISA is 'AVX3', which is not an "
      "instruction set that oneDNN knows; unset it, or set it to DEFAULT, ALL, SSE41, AVX, AVX2, "
      "AVX2_VNNI, AVX2_VNNI_2, AVX512_CORE, AVX512_CORE_VNNI, AVX512_CORE_BF16, AVX512_CORE_FP16, "
      "AVX512_CORE_AMX, AVX512_CORE_AMX_FP16, AVX10_1_512, AVX10_1_512_AMX, AVX10_1_512_AMX_FP16, "
      "AVX10_2_512 or AVX10_2_512_AMX_2\n"
      "error E0501: the environment variable ATEN_CPU_CAPABILITY is 'AVX2', which is not an "
      "instruction set that LibTorch knows; unset it, or set it to default, avx2 or avx512\n");
}

}  // namespace
}  // namespace stages
