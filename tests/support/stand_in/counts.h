#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace stand_in {

/// The work requested from the GPUs of this process.
struct Counts {
  std::int64_t launches = 0;                        ///< kernels and copies
  std::map<std::string, std::int64_t> launches_of;  ///< by operator, such as "aten::mm"
  std::int64_t copies_to_gpu = 0, bytes_to_gpu = 0;
  std::int64_t copies_ahead = 0;  ///< copies to a GPU that do not wait for its default stream
  std::int64_t copies_to_host = 0, bytes_to_host = 0;
  std::int64_t pageable_copies = 0;  ///< copies from or to memory that is not pinned
  std::int64_t waits = 0;            ///< waits of the host for unfinished work
  std::int64_t left_by_waits = 0;    ///< launches that these waits left unfinished
};

/// Returns the counts since the process began.
Counts counts();

/// The counts between two points in time.
Counts operator-(const Counts& later, const Counts& earlier);

/// Notes a kernel of an operator; a copy of `bytes` to or from a GPU; that a copy is ahead of work
/// on the default stream; a wait of the host, after which `left` launches are unfinished.
void count_launch(const std::string& operation);
void count_copy(bool is_to_host, bool is_pinned, std::int64_t bytes);
void count_copy_ahead();
void count_wait(std::int64_t left);

}  // namespace stand_in
