-- Tests of prefixrouter.lua: luajit prefixrouter_test.lua, in this folder.

local ffi = require("ffi")
local prefixrouter = require("prefixrouter")

local function add_instances(router, ...)
  for _, name in ipairs({ ... }) do
    assert(router:add_instance(name))
  end
  return router
end

local function router_with(...)
  return add_instances(assert(prefixrouter.new()), ...)
end

local function assert_error(status, text, result, message, got)
  assert(result == nil, "an error was expected")
  assert(got == status and message:find(text, 1, true), ("%s: %s"):format(got, message))
end

-- Errors name what was refused.
local router = router_with("a")
assert_error(prefixrouter.ALREADY_EXISTS, '"a"', router:add_instance("a"))
assert_error(prefixrouter.INVALID_ARGUMENT, "name", router:add_instance(""))
assert_error(prefixrouter.NOT_FOUND, "99", router:name(99))
assert_error(prefixrouter.UNAVAILABLE, "no instance", router_with():acquire({ text = "prompt" }))

-- A lease ends once, and keeps its router alive.
local lease = assert(router_with("a"):acquire({ tokens = { 1, 2, 3 } }))
collectgarbage()
collectgarbage()
assert(lease.prompt_tokens == 3)
assert(lease:finish())
assert_error(prefixrouter.NOT_FOUND, "lease", lease:finish(1))
assert_error(prefixrouter.NOT_FOUND, "lease", lease:cancel())

-- A table of tokens, an array of tokens and nothing at all are prompts; a table is a copy of the
-- array.
local count = 64
local array, list = ffi.new("uint32_t[?]", count), {}
for i = 1, count do
  array[i - 1], list[i] = 4294967295 - i, 4294967295 - i
end
assert(router:acquire({ tokens = array, token_count = count }):finish())
lease = assert(router:acquire({ tokens = list }))
assert(lease.cached_tokens == count, lease.cached_tokens)
assert(lease:finish())
assert(router:route(nil, 0))
assert(router:acquire({ tokens = {} }):cancel())

-- A session stays on its instance.
local two = router_with("a", "b")
local first = assert(two:acquire({ text = "hello", session_key = "s" }))
for i = 1, 20 do
  local later = assert(two:acquire({ text = "other words " .. i, session_key = "s" }))
  assert(later.instance == first.instance)
end

-- Several routers send it to the same one, and a prompt too.
local options = { routers = 2, key_seed = 7 }
local here = add_instances(assert(prefixrouter.new(options)), "a", "b", "c")
local there = add_instances(assert(prefixrouter.new(options)), "c", "b", "a")
for i = 1, 20 do
  for _, prompt in ipairs({
    { text = ("prompt " .. i):rep(100) },
    { text = ("turn " .. i):rep(100), session_key = "s" },
  }) do
    local one, other = assert(here:acquire(prompt)), assert(there:acquire(prompt))
    assert(here:name(one.instance) == there:name(other.instance))
    assert(one:finish() and other:finish())
  end
end
assert_error(prefixrouter.INVALID_ARGUMENT, "key_seed must be set", prefixrouter.new({ routers = 2 }))

-- An instance that is down gets nothing.
assert(two:set_down(first.instance, 600))
for i = 1, 20 do
  local later = assert(two:acquire({ text = "more words " .. i, session_key = "s" }))
  assert(later.instance ~= first.instance)
end
assert_error(prefixrouter.INVALID_ARGUMENT, "-1", two:set_down(first.instance, -1))

-- The same when it is compiled: a loop that is long enough for a trace, with collections.
for i = 1, 2000 do
  lease = assert(router:acquire({ tokens = { i, i + 1, i + 2 } }))
  assert(lease:first_token() and lease:finish(1))
  if i % 500 == 0 then
    collectgarbage()
  end
end
print("all passed")
