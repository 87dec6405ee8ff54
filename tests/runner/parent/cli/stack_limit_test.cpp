#include "runner/parent/cli/program.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/sanitized.h"

namespace runner {
namespace {

/// Uses 512 KiB of the stack. Not inlined: its caller's frame would then be that large before the
/// limit is raised.
[[gnu::noinline]] bool uses_stack() {
  volatile char far[512 << 10];
  far[0] = 1;
  return far[0] == 1;
}

/// The result of raise_stack_limit() in a process with these limits: 0 if there is room afterward,
/// 1 if it reports that there is not.
int outcome_with(rlim_t soft, rlim_t hard) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit low{.rlim_cur = soft, .rlim_max = hard};
    setrlimit(RLIMIT_STACK, &low);
    if (geteuid() == 0 && setuid(65534) != 0) _exit(9);
    if (const auto error = raise_stack_limit())
      _exit(error->message == "the stack is limited to 512 KiB, but 1.0 MiB is needed" ? 1 : 2);
    rlimit now{};
    getrlimit(RLIMIT_STACK, &now);
    _exit(now.rlim_cur >= (1 << 20) && uses_stack() ? 0 : 3);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

TEST(StackLimit, LowLimitIsRaisedAsFarAsTheSystemAllows) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer needs more of the stack";
  EXPECT_EQ(outcome_with(512 << 10, 8 << 20), 0);
  EXPECT_EQ(outcome_with(512 << 10, 2 << 20), 0);
  EXPECT_EQ(outcome_with(512 << 10, 512 << 10), 1);
}

}  // namespace
}  // namespace runner
