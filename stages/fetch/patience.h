#pragma once

#include <functional>
#include <string>

#include "stages/fetch/callbacks.h"

namespace stages {

/// How patient fetching is with a server.
struct Patience {
  long connect_seconds = 30;
  long stall_seconds = 60;                        ///< without a byte
  int attempts = 5;                               ///< in a row that bring nothing
  double first_wait = 1;                          ///< seconds before the second; each further wait is twice as long
  double longest_wait = 120;                      ///< of those that a server asks for by Retry-After
  std::function<void(double seconds)> wait = {};  ///< in place of sleeping, for tests
};

/// An answer by which a server says that it may do the next time.
bool is_passing_status(int status);

/// Says "<why>; trying again in 4 s" and waits. Throws runner::Cancelled.
void wait_out(const std::string& why, double seconds, const Patience& patience, const FetchCallbacks& callbacks);

}  // namespace stages
