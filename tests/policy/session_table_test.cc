// SessionTable: bounded in number and age.
#include "lib/policy/session_table.h"

#include "tests/catch.h"

namespace prefixrouter {

TEST_CASE("a session is found until it has been silent for the TTL") {
  SessionTable table(100, 10);
  const InstanceId a = InstanceId::Make(1, 1), b = InstanceId::Make(2, 1);
  table.Set(7, a, 0);
  REQUIRE(table.Find(7, 9) == a);
  REQUIRE_FALSE(table.Find(8, 9).valid());
  table.Set(7, b, 9);
  REQUIRE(table.Find(7, 18) == b);
  REQUIRE_FALSE(table.Find(7, 19).valid());
  REQUIRE(table.size() == 0);
}

TEST_CASE("the longest silent session goes first when there are too many") {
  SessionTable table(3, 1000);
  const InstanceId a = InstanceId::Make(1, 1);
  for (uint64_t session : {1, 2, 3}) table.Set(session, a, 0);
  table.Set(1, a, 1);
  table.Set(4, a, 2);
  REQUIRE(table.size() == 3);
  REQUIRE_FALSE(table.Find(2, 2).valid());
  REQUIRE(table.Find(1, 2).valid());
  SessionTable none(0, 1000);
  none.Set(1, a, 0);
  REQUIRE_FALSE(none.Find(1, 0).valid());
}

}  // namespace prefixrouter
