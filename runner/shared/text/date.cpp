#include "runner/shared/text/date.h"

#include <ctime>

namespace runner {
namespace {

std::string formatted_time(const std::tm& parts, const char* format) {
  char text[64];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

}  // namespace

std::string local_time(std::chrono::system_clock::time_point time, const char* format) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  return formatted_time(*localtime_r(&seconds, &parts), format);
}

std::string utc_time(std::chrono::system_clock::time_point time, const char* format) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  return formatted_time(*gmtime_r(&seconds, &parts), format);
}

}  // namespace runner
