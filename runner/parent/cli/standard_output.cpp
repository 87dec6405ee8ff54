#include "runner/parent/cli/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace runner {

StandardOutput::StandardOutput(int descriptor) : std::ostream(nullptr), buffer_(descriptor) { rdbuf(&buffer_); }

StandardOutput::Buffer::Buffer(int descriptor) : descriptor_(descriptor), is_terminal_(isatty(descriptor)) {
  setp(waiting_.data(), waiting_.data() + waiting_.size());
}

StandardOutput::Buffer::int_type StandardOutput::Buffer::overflow(int_type c) {
  if (sync() != 0) return traits_type::eof();
  if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
  return traits_type::not_eof(c);
}

std::streamsize StandardOutput::Buffer::xsputn(const char* text, std::streamsize size) {
  const auto count = static_cast<std::size_t>(size);
  if (size > epptr() - pptr() && sync() != 0) return 0;
  if (count > waiting_.size()) return write_all(text, count) ? size : 0;
  std::memcpy(pptr(), text, count);
  pbump(static_cast<int>(size));
  if (is_terminal_ && std::memchr(text, '\n', count) && sync() != 0) return 0;
  return size;
}

int StandardOutput::Buffer::sync() {
  const auto size = static_cast<std::size_t>(pptr() - pbase());
  setp(waiting_.data(), waiting_.data() + waiting_.size());
  return write_all(pbase(), size) ? 0 : -1;
}

bool StandardOutput::Buffer::write_all(const char* text, std::size_t size) {
  while (size > 0 && error_ == 0) {
    const ssize_t written = ::write(descriptor_, text, size);
    if (written >= 0) {
      text += written;
      size -= static_cast<std::size_t>(written);
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  return error_ == 0;
}

void fill_missing_descriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF)
      open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);  // it gets the lowest number that is free
  }
}

}  // namespace runner
