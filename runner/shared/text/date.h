#pragma once

#include <chrono>
#include <string>

namespace runner {

/// Return a time as strftime() formats it, in the local time zone or in UTC: at most 63 characters.
std::string local_time(std::chrono::system_clock::time_point time, const char* format);
std::string utc_time(std::chrono::system_clock::time_point time, const char* format);

}  // namespace runner
