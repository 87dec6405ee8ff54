#include "stages/ranks/silent_machine.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <charconv>
#include <filesystem>
#include <string>

namespace stages {
namespace {

bool is_connection(int descriptor) {
  int protocol = 0;
  socklen_t size = sizeof protocol;
  sockaddr_storage peer{};
  socklen_t peer_size = sizeof peer;
  return getsockopt(descriptor, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 &&
         protocol == IPPROTO_TCP &&
         getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0;
}

void set(int descriptor, int level, int option, int value) {
  setsockopt(descriptor, level, option, &value, sizeof value);
}

}  // namespace

std::set<int> open_connections() {
  std::set<int> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", none)) {
    const std::string name = entry.path().filename();
    int number = -1;
    std::from_chars(name.data(), name.data() + name.size(), number);
    if (is_connection(number)) found.insert(number);
  }
  return found;
}

void limit_silence(const std::set<int>& older) {
  constexpr int kSeconds = kSilence.count();
  constexpr int kProbes = 4, kIdle = kSeconds / 3;
  for (const int one : open_connections()) {
    if (older.contains(one)) continue;
    set(one, IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * kSeconds);  // while data is unacknowledged
    set(one, SOL_SOCKET, SO_KEEPALIVE, 1);                     // while nothing is sent
    set(one, IPPROTO_TCP, TCP_KEEPIDLE, kIdle);
    set(one, IPPROTO_TCP, TCP_KEEPINTVL, (kSeconds - kIdle) / kProbes);
    set(one, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  }
}

}  // namespace stages
