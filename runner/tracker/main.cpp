#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>

#include "runner/tracker/tracker.h"

namespace {

constexpr int kEvents = 3;  // the descriptor that `retort` reads from

class StandardInput final : public runner::TrackerInput {
 public:
  std::optional<std::string> next(std::chrono::milliseconds time) override {
    if (auto line = first_line()) return line;
    pollfd wanted{STDIN_FILENO, POLLIN, 0};
    if (is_closed_ || ::poll(&wanted, 1, static_cast<int>(time.count())) <= 0) return std::nullopt;
    char piece[4096];
    const ssize_t size = ::read(STDIN_FILENO, piece, sizeof piece);
    if (size > 0) text_.append(piece, static_cast<std::size_t>(size));
    else if (size == 0 || errno != EINTR) is_closed_ = true;
    return first_line();
  }
  bool is_over() const override { return is_closed_ && text_.find('\n') == text_.npos; }

 private:
  std::optional<std::string> first_line() {
    const std::size_t end = text_.find('\n');
    if (end == text_.npos) return std::nullopt;
    std::string line = text_.substr(0, end);
    text_.erase(0, end + 1);
    return line;
  }

  std::string text_;
  bool is_closed_ = false;
};

void answer(const nlohmann::json& line) {
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t size = ::write(kEvents, rest.data(), rest.size());
    if (size < 0 && errno != EINTR) return;
    if (size > 0) rest.remove_prefix(static_cast<std::size_t>(size));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || std::strcmp(argv[1], "--events-fd") != 0) {
    std::fputs("retort-tracker only works when started by retort: see `retort --help`\n", stderr);
    return 64;
  }
  std::signal(SIGPIPE, SIG_IGN);
  StandardInput input;
  try {
    return runner::Tracker(input, answer)() ? 0 : 1;
  } catch (const std::exception& error) {
    answer({{"failed", error.what()}});
    return 70;
  }
}
