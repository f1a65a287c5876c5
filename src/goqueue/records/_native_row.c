/* One message: a row of `Messages`, or seven fields of its own. The twin of `messages.Row`. */
#include "_native.h"

typedef struct {
    PyObject_HEAD
    PyObject *origin; /* the `Messages` it is a row of, or a tuple of its fields */
    Py_ssize_t row;   /* -1 with fields of its own */
} row_object;

PyObject *new_row(PyTypeObject *type, messages *from, Py_ssize_t row)
{
    row_object *self = (row_object *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->origin = Py_NewRef(from);
        self->row = row;
    }
    return (PyObject *)self;
}

static PyObject *row_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[]
        = {"topic", "partition", "offset", "timestamp_ms", "key", "value", "headers", NULL};
    PyObject *fields[FIELD_COUNT];
    PyObject *module = PyType_GetModuleByDef(type, &native_definition);
    if (module == NULL)
        return NULL;
    fields[HEADERS] = state_of(module)->no_headers;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOOOOO|O", names, &fields[TOPIC],
                                     &fields[PARTITION], &fields[OFFSET], &fields[TIMESTAMP],
                                     &fields[KEY], &fields[VALUE], &fields[HEADERS]))
        return NULL;
    PyObject *own = PyTuple_New(FIELD_COUNT);
    if (own == NULL)
        return NULL;
    for (int i = 0; i < FIELD_COUNT; i++)
        PyTuple_SET_ITEM(own, i, Py_NewRef(fields[i]));
    row_object *self = (row_object *)type->tp_alloc(type, 0);
    if (self == NULL) {
        Py_DECREF(own);
        return NULL;
    }
    self->origin = own;
    self->row = -1;
    return (PyObject *)self;
}

static void row_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    Py_CLEAR(((row_object *)object)->origin);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *get_field(PyObject *object, field wanted)
{
    row_object *self = (row_object *)object;
    if (self->row < 0)
        return Py_NewRef(PyTuple_GET_ITEM(self->origin, wanted));
    return read_field((messages *)self->origin, self->row, wanted);
}

static PyObject *get_named(PyObject *object, void *closure)
{
    return get_field(object, (field)(intptr_t)closure);
}

static PyObject *as_tuple(PyObject *object)
{
    row_object *self = (row_object *)object;
    if (self->row < 0)
        return Py_NewRef(self->origin);
    PyObject *fields = PyTuple_New(FIELD_COUNT);
    for (int i = 0; fields != NULL && i < FIELD_COUNT; i++) {
        PyObject *item = read_field((messages *)self->origin, self->row, (field)i);
        if (item == NULL)
            Py_CLEAR(fields);
        else
            PyTuple_SET_ITEM(fields, i, item);
    }
    return fields;
}

static PyObject *row_iter(PyObject *self)
{
    PyObject *fields = as_tuple(self);
    PyObject *iterator = fields == NULL ? NULL : PyObject_GetIter(fields);
    Py_XDECREF(fields);
    return iterator;
}

static Py_ssize_t row_length(PyObject *self)
{
    (void)self;
    return FIELD_COUNT;
}

static PyObject *row_item(PyObject *self, Py_ssize_t index)
{
    if (index < 0 || index >= FIELD_COUNT) {
        PyErr_SetString(PyExc_IndexError, "a message has seven fields");
        return NULL;
    }
    return get_field(self, (field)index);
}

static PyObject *row_subscript(PyObject *self, PyObject *index)
{
    PyObject *fields = as_tuple(self);
    PyObject *item = fields == NULL ? NULL : PyObject_GetItem(fields, index);
    Py_XDECREF(fields);
    return item;
}

#define FIELD(name, field) {name, get_named, NULL, "See goqueue.records.messages.", (void *)(field)}

static PyGetSetDef row_properties[] = {
    FIELD("topic", TOPIC),
    FIELD("partition", PARTITION),
    FIELD("offset", OFFSET),
    FIELD("timestamp_ms", TIMESTAMP),
    FIELD("key", KEY),
    FIELD("value", VALUE),
    FIELD("headers", HEADERS),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot row_slots[] = {
    {Py_tp_new, (void *)row_new},
    {Py_tp_dealloc, (void *)row_dealloc},
    {Py_tp_getset, row_properties},
    {Py_tp_iter, (void *)row_iter},
    {Py_sq_length, (void *)row_length},
    {Py_sq_item, (void *)row_item},
    {Py_mp_length, (void *)row_length},
    {Py_mp_subscript, (void *)row_subscript},
    {0, NULL},
};

static PyType_Spec row_spec = {
    .name = "goqueue.records.Message", /* which is what becomes of it */
    .basicsize = sizeof(row_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = row_slots,
};

PyObject *new_row_type(PyObject *module)
{
    return PyType_FromModuleAndSpec(module, &row_spec, NULL);
}
