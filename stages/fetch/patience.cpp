#include "stages/fetch/patience.h"

#include <chrono>
#include <cmath>
#include <thread>

namespace stages {

bool is_passing_status(int status) {
  return status == 408 || status == 425 || status == 429 || status == 500 || (status >= 502 && status <= 504);
}

void wait_out(const std::string& why, double seconds, const Patience& patience, const FetchCallbacks& callbacks) {
  if (callbacks.say) callbacks.say(why + "; trying again in " + std::to_string(std::lround(std::ceil(seconds))) + " s");
  if (patience.wait) return patience.wait(seconds);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    stop_if_cancelled(callbacks);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

}  // namespace stages
