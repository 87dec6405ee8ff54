#include "runner/parent/cli/stack_limit.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>

#include "runner/shared/text/bytes.h"

namespace runner {

std::optional<Diagnostic> raise_stack_limit() {
  constexpr rlim_t kLeast = 1 << 20, kUsual = 8 << 20;
  rlimit stack{};
  if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur == RLIM_INFINITY ||
      stack.rlim_cur >= kLeast)
    return {};
  rlimit raised{.rlim_cur = kUsual, .rlim_max = std::max<rlim_t>(stack.rlim_max, kUsual)};
  if (setrlimit(RLIMIT_STACK, &raised) != 0) {  // only root may go beyond the hard one
    raised = {.rlim_cur = std::min<rlim_t>(stack.rlim_max, kUsual), .rlim_max = stack.rlim_max};
    if (raised.rlim_cur < kLeast || setrlimit(RLIMIT_STACK, &raised) != 0) {
      return Diagnostic{ErrorCode::kDeviceUnavailable,
                        {},
                        "",
                        "the stack may have no more than " +
                            bytes_text(static_cast<std::int64_t>(stack.rlim_max)) + ", and " +
                            bytes_text(static_cast<std::int64_t>(kLeast)) + " are needed",
                        "raise the limit: `ulimit -s 8192`"};
    }
  }
  // The stacks of threads were measured when the program began.
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return {};
  pthread_attr_setstacksize(&attributes, raised.rlim_cur);
  pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
  return {};
}

}  // namespace runner
