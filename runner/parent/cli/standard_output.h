#pragma once

#include <array>
#include <ostream>
#include <streambuf>

namespace runner {

/// A stream to a file descriptor that knows why it failed; what is written after a failure is dropped. On a terminal
/// each line appears when it is complete.
///
///   StandardOutput out(STDOUT_FILENO);
///   out << "result" << std::flush;
///   if (out.error() == ENOSPC) …
class StandardOutput final : public std::ostream {
 public:
  explicit StandardOutput(int descriptor);

  /// errno of the first write that failed; 0: none has.
  int error() const { return buffer_.error(); }

 private:
  class Buffer final : public std::streambuf {
   public:
    explicit Buffer(int descriptor);
    int error() const { return error_; }

   private:
    int_type overflow(int_type c) override;
    std::streamsize xsputn(const char* text, std::streamsize size) override;
    int sync() override;
    bool write_all(const char* text, std::size_t size);

    const int descriptor_;
    const bool is_terminal_;
    int error_ = 0;
    std::array<char, 8192> waiting_;
  };

  Buffer buffer_;
};

/// Has descriptors 0 to 2 that the program was started without refer to /dev/null, so that no file that is opened later
/// takes their place. Writing to them still fails.
void fill_missing_descriptors();

}  // namespace runner
